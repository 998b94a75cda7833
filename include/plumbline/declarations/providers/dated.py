"""Values with a period: from one day on, until another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from itertools import pairwise
from typing import Annotated, TypeVar

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared

Month = Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", examples=["2026-10"])]


class Dated(Declared):
    """Holds from `since` (included) until `until` (excluded)."""

    since: date
    until: date | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Dated:
        check_order(self.since, self.until)
        return self

    def holds(self, on: date) -> bool:
        """Whether it holds on a day."""
        return self.since <= on and (self.until is None or on < self.until)


AnyDated = TypeVar("AnyDated", bound=Dated)


def check_order(since: date, until: date | None) -> None:
    """ValueError for an `until` that is not after `since`."""
    if until is not None and until <= since:
        raise ValueError(f"until {until} is not after since {since}; expected a later date")


def check_one_at_a_time(dated: Iterable[AnyDated], what: Callable[[AnyDated], str]) -> None:
    """ValueError if two of one kind hold on a day. `what`: the kind, in the plural."""
    for earlier, later in pairwise(sorted(dated, key=lambda one: (what(one), one.since))):
        if (kind := what(later)) == what(earlier) and (earlier.until is None or earlier.until > later.since):
            raise ValueError(f"two {kind} hold on {later.since}; expected `until: {later.since}` or earlier on the first")
