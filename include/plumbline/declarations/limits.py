"""What stops or limits: fields whose change counts at once, even while another file is broken, in the direction that starts and costs less.

A field `enabled` needs no mark, nor does a model that `only_limits`; another field has one of the marks below as metadata of its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from plumbline.declarations.base import Declared

Model = TypeVar("Model", bound=Declared)


class Limits(NamedTuple):
    """Metadata of a field. `stricter`: of two values the one that starts less."""

    stricter: Callable[[Any, Any], Any]


def _smaller(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _common(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else tuple(each for each in one if each in other)


def _rarer(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    return stricter(one, other) if isinstance(one, Declared) else max(one, other)


AT_MOST = Limits(_smaller)
"""The smaller number counts; None is no limit."""
AMONG = Limits(_common)
"""What both name counts; None names all."""
RARELY = Limits(_rarer)
"""The longer interval counts; None is never. Of a model: its own marks."""
UNLESS = Limits(lambda one, other: one or other)
"""True counts, which starts nothing."""
ENABLED = Limits(lambda one, other: one and other)
"""False counts."""


def rule_of(model: type[Declared], name: str) -> Limits | None:
    """The mark of a model's field; None of one that may wait until every file is valid."""
    marks = [mark for mark in model.model_fields[name].metadata if isinstance(mark, Limits)]
    return next(iter(marks), ENABLED if name == "enabled" else AT_MOST if model.only_limits else None)


def stricter(valid: Model, now: Model) -> Model:
    """`valid` with those limits of `now` that are stricter, in all its parts; every other field stays. Both are of one class."""
    changed: dict[str, Any] = {}
    for name in type(valid).model_fields:
        one, other, rule = getattr(valid, name), getattr(now, name), rule_of(type(valid), name)
        if rule is not None:
            found = rule.stricter(one, other)
        elif isinstance(one, Declared) and type(one) is type(other):
            found = stricter(one, other)
        else:
            found = other if one is None and isinstance(other, Declared) and other.only_limits else one
        if found != one:
            changed[name] = found
    return valid.model_copy(update=changed) if changed else valid
