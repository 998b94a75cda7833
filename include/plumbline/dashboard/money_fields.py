"""Declarations without their amounts of money, found by the fields' types: a new price is hidden without being listed here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from plumbline.declarations.providers.amounts import Exchanged
from plumbline.declarations.providers.provider import PriceSourceBase
from plumbline.metrics.units import MoneyType

_OF_MONEY = (Exchanged, PriceSourceBase)
"""Models that are about money whatever their fields are."""
Model = TypeVar("Model", bound=BaseModel)


def without_money(model: Model) -> Model:
    """The model with the default in place of each field that holds money, and without the entries of its tuples and mappings that do.

    TypeError for a required field that is an amount: it cannot be left out, and must not be shown.
    """
    changed = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name in _money_fields(type(model)) or (_is_priced(value) and not field.is_required()):
            if field.is_required():
                raise TypeError(f"{type(model).__name__}.{name} holds money and is required; expected a default, to hide it from readers")
            shown = field.get_default(call_default_factory=True)
        else:
            shown = _shown(value)
        if shown is not value:
            changed[name] = shown
    return model.model_copy(update=changed) if changed else model


@lru_cache(maxsize=1024)
def _money_fields(model: type[BaseModel]) -> frozenset[str]:
    """Names of the fields that are amounts themselves, also in a tuple or mapping; not those of models that have such fields."""
    fields = model.model_fields.items()
    return frozenset(
        n for n, f in fields if n.startswith("usd_") or _is_money(f.annotation) or any(isinstance(m, MoneyType) for m in f.metadata)
    )


def _is_money(annotation: Any) -> bool:
    # The arguments of an Annotated are its type and its metadata.
    return isinstance(annotation, MoneyType) or any(_is_money(each) for each in get_args(annotation))


def _is_priced(value: Any) -> bool:
    return isinstance(value, BaseModel) and (isinstance(value, _OF_MONEY) or bool(_money_fields(type(value))))


def _shown(value: Any) -> Any:
    """The value without money; the same object where there is none."""
    if isinstance(value, BaseModel):
        return without_money(value)
    if isinstance(value, tuple | list):
        kept = [_shown(each) for each in value if not _is_priced(each)]
        same = len(kept) == len(value) and all(new is old for new, old in zip(kept, value, strict=True))
        return value if same else type(value)(kept)
    if isinstance(value, Mapping):
        entries = {key: _shown(each) for key, each in value.items() if not _is_priced(each)}
        return value if len(entries) == len(value) and all(entries[key] is value[key] for key in value) else entries
    return value
