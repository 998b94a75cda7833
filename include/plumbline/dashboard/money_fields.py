"""What a reader without access to costs is shown of a declaration, an archived record, a view model or a text: all of it but money.

Money is found by its type: a field of a declaration, of a row or of a view that is an amount is hidden without being listed here. Where a value
has lost its type, as in JSON, an amount is known by its unit beside it, or by its name; and in a text by its currency.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from plumbline.analysis.cost.bill import Bill, Money, UnitPrice
from plumbline.declarations.providers.amounts import Exchanged
from plumbline.declarations.providers.provider import PriceSourceBase
from plumbline.metrics.units import MoneyType
from plumbline.presentation.charts.chart import Chart

_OF_MONEY = (Exchanged, PriceSourceBase)
"""Models that are about money whatever their fields are."""
_AMOUNTS = (Money, UnitPrice, Bill)
"""Values that are amounts themselves."""
_NAMED = re.compile(r"(?:^|_)(?:usd|prices?|costs?|savings?|saved|budget|credits?|invoices?|fees?)(?:_|$)")
_UNIT_FIELDS = ("unit", "currency", "suffix")
_CURRENCY = r"(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)"
_MONEY_UNIT = re.compile(rf"^{_CURRENCY}\b|[$€£¥]")
_NAMES_CURRENCY = re.compile(rf"\b{_CURRENCY}\b")
_NUMBER = r"[−-]?\d[\d.,\u00a0\u2009\u202f ]{0,24}(?:e[+-]?\d+)?"
_NUMBERS = rf"{_NUMBER}(?:\s?(?:→|…|–|to|and|of)\s?{_NUMBER})*"
_AMOUNT = re.compile(
    rf"{_NUMBERS}\s?(?:[kMB]\s)?(?:{_CURRENCY}\b|[$€£¥]|[A-Z]{{3}}/(?:h|GPU-hour|instance-hour)\b)|(?:\b{_CURRENCY}|[$€£¥])\s?{_NUMBERS}"
)
AMOUNT_HIDDEN = "Not shown: the text has amounts of money, which require a role with access to costs"
NUMBER_HIDDEN = "(amount not shown)"
Model = TypeVar("Model", bound=BaseModel)


def without_amounts(value: Any) -> Any:
    """The value, as JSON holds it, with a note in place of each text that has an amount of money: a part of a sentence would not be one."""
    if isinstance(value, str):
        return AMOUNT_HIDDEN if _AMOUNT.search(value) else value
    if isinstance(value, Mapping):
        return {key: without_amounts(each) for key, each in value.items()}
    return [without_amounts(each) for each in value] if isinstance(value, list | tuple) else value


def without_numbers(written: str) -> str:
    """A written page or feed with a note in place of each amount: of what a template made of parts that are no amounts by themselves."""
    return _AMOUNT.sub(NUMBER_HIDDEN, written)


def without_money(model: Model) -> Model:
    """The model with the default in place of each field that holds money, and without the entries of its tuples and mappings that do.

    TypeError for a required field that is an amount: it cannot be left out, and must not be shown.
    """
    changed = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name in money_fields(type(model)) or (_is_priced(value) and not field.is_required()):
            if field.is_required():
                raise TypeError(f"{type(model).__name__}.{name} holds money and is required; expected a default, to hide it from readers")
            shown = field.get_default(call_default_factory=True)
        else:
            shown = _declared_without(value)
        if shown is not value:
            changed[name] = shown
    return model.model_copy(update=changed) if changed else model


def _is_priced(value: Any) -> bool:
    if not isinstance(value, BaseModel):
        return False
    declared = (type(value).model_fields[name] for name in money_fields(type(value)))
    return isinstance(value, _OF_MONEY) or any(field.is_required() or not _is_aside(field) for field in declared)


def _is_aside(field: FieldInfo) -> bool:
    return any(isinstance(each, MoneyType) and each.aside for each in (*field.metadata, *_metadata(field.annotation)))


def _metadata(annotation: Any) -> Iterator[Any]:
    for each in get_args(annotation):
        yield each
        yield from _metadata(each)


def _declared_without(value: Any) -> Any:
    """The value of a declaration without money; the same object where there is none."""
    if isinstance(value, BaseModel):
        return without_money(value)
    if isinstance(value, tuple | list):
        kept = [_declared_without(each) for each in value if not _is_priced(each)]
        same = len(kept) == len(value) and all(new is old for new, old in zip(kept, value, strict=True))
        return value if same else type(value)(kept)
    if isinstance(value, Mapping):
        entries = {key: _declared_without(each) for key, each in value.items() if not _is_priced(each)}
        return value if len(entries) == len(value) and all(entries[key] is value[key] for key in value) else entries
    return value


@cache
def money_fields(kind: Any) -> frozenset[str]:
    """Names of the fields of a model, a dataclass or a table that are amounts themselves, also in a tuple or mapping; not those of models that
    have such fields."""
    if issubclass(kind, BaseModel):
        declared = kind.model_fields.items()
        return frozenset(
            n for n, f in declared if n.startswith("usd_") or is_money(f.annotation) or any(isinstance(m, MoneyType) for m in f.metadata)
        )
    return frozenset(name for name, hint in type_hints(kind).items() if is_money(hint))


def is_money(annotation: Any) -> bool:
    """Whether a type is an amount, or a container or an alternative of one."""
    # The arguments of an Annotated are its type and its metadata.
    amount = isinstance(annotation, type) and issubclass(annotation, _AMOUNTS)
    return amount or isinstance(annotation, MoneyType) or any(is_money(each) for each in get_args(annotation))


def holds_money(annotation: Any, within: frozenset[type] = frozenset()) -> bool:
    """Whether a type is an amount, or a record or a container of something that has one. `within`: records that it is already in."""
    if is_money(annotation):
        return True
    if is_dataclass(annotation) and isinstance(annotation, type):
        return annotation not in within and any(holds_money(each, within | {annotation}) for each in type_hints(annotation).values())
    return any(holds_money(each, within) for each in get_args(annotation))


@cache
def type_hints(kind: Any) -> Mapping[str, Any]:
    """The types of a class's fields. A name that is imported for type checkers alone stands for no amount: an amount's type is imported."""
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:
        return _hints_of_parts(kind)


def _hints_of_parts(kind: type) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        module = __import__(base.__module__, fromlist=["_"])
        for name, hint in vars(base).get("__annotations__", {}).items():
            try:
                found[name] = eval(hint, vars(module)) if isinstance(hint, str) else hint
            except NameError:
                found[name] = Any
    return found


def shown_without_money(value: Any) -> Any:
    """A view model as a reader without access to costs gets it: its fields of money are empty, and texts with amounts are notes."""
    return _View().shown(value)


class _View:
    """One walk over a view; the same object is shown as the same one, because a page's templates compare them."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, Any]] = {}

    def shown(self, value: Any) -> Any:
        if isinstance(value, str):
            return without_amounts(value) if type(value) is str else value
        if value is None or isinstance(value, bool | int | float | type):
            return value
        if isinstance(value, _AMOUNTS):
            return None
        known = self._seen.get(id(value))
        if known is None:
            self._seen[id(value)] = known = (value, self._part(value))  # the value is kept: its id must not be given to another
        return known[1]

    def _part(self, value: Any) -> Any:
        if isinstance(value, BaseModel):
            return self._model(value)
        if isinstance(value, Chart) and _NAMES_CURRENCY.search(str(value.layout)):
            return self._record(replace(value, data=[]))
        if is_dataclass(value):
            return self._record(value)
        if isinstance(value, Mapping):
            priced = any(_names_money(value.get(name)) for name in _UNIT_FIELDS)
            entries = {key: self._entry(key, each, priced) for key, each in value.items()}
            return value if all(entries[key] is value[key] for key in entries) else entries
        if hasattr(value, "_fields"):
            kind: Any = type(value)
            own, priced = money_fields(kind), _has_money_unit(value)
            values = {name: getattr(value, name) for name in value._fields}
            return kind(*(None if name in own or (priced and _is_number(v)) else self.shown(v) for name, v in values.items()))
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(value)
        return value

    def _entry(self, key: Any, value: Any, priced: bool) -> Any:
        amount = priced or (isinstance(key, str) and _NAMED.search(key))
        return None if amount and _is_number(value) else self.shown(value)

    def _items(self, value: Any) -> Any:
        # A declaration or a row of a document that rests on its amount is none without it.
        kept = [each for each in value if not _is_left_out(each)]
        made = [self.shown(each) for each in kept]
        if len(made) == len(value) and all(new is old for new, old in zip(made, value, strict=True)):
            return value
        return type(value)(made)

    def _model(self, model: BaseModel) -> BaseModel | None:
        if _is_left_out(model):
            return None
        own, changed = money_fields(type(model)), {}
        for name, field in type(model).model_fields.items():
            value = getattr(model, name)
            hidden = name in own or _is_left_out(value)
            shown = self.shown(value) if not hidden else None if field.is_required() else field.get_default(call_default_factory=True)
            if shown is not value:
                changed[name] = shown
        return model.model_copy(update=changed) if changed else model

    def _record(self, record: Any) -> Any:
        kind: Any = type(record)
        own = money_fields(kind)
        priced = _has_money_unit(record)
        values, same = {}, True
        for field in fields(record):
            value = getattr(record, field.name)
            shown = _empty(value) if field.name in own else None if priced and _is_number(value) else self.shown(value)
            same = same and shown is value
            values[field.name] = shown
        if same:
            return record
        # Not by its constructor, which may refuse a record without its amount; and without what it has computed from the amount.
        made = object.__new__(type(record))
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made


def _is_left_out(value: Any) -> bool:
    return _is_priced(value) or (isinstance(value, BaseModel) and _has_money_unit(value))


def _has_money_unit(record: Any) -> bool:
    return any(_names_money(getattr(record, name, None)) for name in _UNIT_FIELDS)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def _names_money(unit: Any) -> bool:
    return isinstance(unit, str) and _MONEY_UNIT.search(unit) is not None


def _empty(value: Any) -> Any:
    """A field without its amount: a text, a list and a mapping stay one."""
    return next((kind() for kind in (str, tuple, list, dict) if isinstance(value, kind)), None)


def json_without_money(kind: Any, data: Any) -> Any:
    """Stored JSON of a dataclass without what is money by the types of its fields. A record that is none without its amount is left out of its
    list, and null elsewhere, so that what is left can be read back."""
    if get_origin(kind) in (Union, UnionType):
        inner = [each for each in get_args(kind) if each is not type(None)]
        return json_without_money(inner[0], data) if len(inner) == 1 else data
    if isinstance(data, list | tuple) and get_args(kind):
        return [json_without_money(get_args(kind)[0], each) for each in data if not _rests_on_an_amount(get_args(kind)[0])]
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(data, Mapping):
        if _rests_on_an_amount(kind):
            return None
        own, hints = money_fields(kind), type_hints(kind)
        return {key: _empty(each) if key in own else json_without_money(hints.get(key), each) for key, each in data.items()}
    return data


def _rests_on_an_amount(kind: Any) -> bool:
    """Whether a dataclass has an amount that can neither be left out nor be None."""
    if not (is_dataclass(kind) and isinstance(kind, type)):
        return False
    hints = type_hints(kind)
    needed = (f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING and f.name in money_fields(kind))
    return any(type(None) not in get_args(hints[name]) for name in needed)
