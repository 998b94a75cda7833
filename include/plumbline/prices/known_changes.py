"""Price changes that are known from elsewhere, to hold a replay against: which of them it told, and what it told that nobody knows of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from plumbline.declarations.purchases import Purchase, Term
from plumbline.prices.check import LIST_MOVE, moved
from plumbline.prices.replay import Replayed, Told
from plumbline.prices.sources.csv_history import PURCHASES, HistoryError, rows_of

COLUMNS = ("date", "provider", "region", "instance_type", "purchase", "old_usd_per_gpu_hour", "new_usd_per_gpu_hour")
Answer = Literal["changed", "held", "on the way", "missed"]
_CENT = 1e-4
"""Prices agree to this fraction: a file rounds what another does not."""


@dataclass(frozen=True)
class KnownChange:
    """A price that moved from `old` to `new`, in USD per GPU-hour, as read first on the day `on`."""

    provider: str
    purchase: Purchase
    term: Term | None
    on: date
    old: float
    new: float


@dataclass(frozen=True)
class Compared:
    """Known list-price changes of 1 % and more with the replay's answer to each; `invented`: changes that the replay told and nobody knows.

    `on the way`: a price that was read once before the next one came; it is named in the change, or in the hold, that followed it.
    """

    answers: tuple[tuple[KnownChange, Answer], ...]
    invented: tuple[Told, ...]

    @property
    def counts(self) -> Counter[Answer]:
        """How many known changes got which answer."""
        return Counter(answer for _, answer in self.answers)


def known_changes(path: Path) -> Iterator[KnownChange]:
    """The changes of a CSV file, in its order. HistoryError for a file or a row that cannot be read."""
    for line, row in rows_of(path, COLUMNS):
        try:
            purchase, term = PURCHASES[row["purchase"] or ""]
            old, new = (float(row[column] or "") for column in ("old_usd_per_gpu_hour", "new_usd_per_gpu_hour"))
            on = date.fromisoformat(row["date"] or "")
            if not (0 <= old < math.inf and 0 <= new < math.inf):
                raise ValueError(f"{old:g} → {new:g} USD is no change of a price")
        except (KeyError, ValueError) as error:
            expected = f"a date such as 2026-01-31, a purchase of {', '.join(PURCHASES)}, and two numbers, at least 0"
            raise HistoryError(f"{path}:{line} cannot be read ({error}); expected {expected}") from error
        yield KnownChange(f"{row['provider']}/{row['region']}/{row['instance_type']}", purchase, term, on, old, new)


def compare(replayed: Replayed, known: Sequence[KnownChange]) -> Compared:
    """Hold what a replay told of list prices against what is known; of smaller known changes none has to be told, but each may be."""
    listed = [k for k in known if k.purchase != "spot"]
    told = [t for t in replayed.told if t.purchase != "spot"]
    by_key: dict[tuple[str, Purchase, Term | None], list[Told]] = {}
    for one in told:
        by_key.setdefault((one.provider, one.purchase, one.term), []).append(one)
    answers = [
        (k, _answer(k, by_key.get((k.provider, k.purchase, k.term), ()))) for k in listed if k.old > 0 and moved(k.new, k.old, LIST_MOVE)
    ]
    days = {(k.provider, k.purchase, k.term, k.on): k.new for k in listed}
    invented = [
        t for t in told if t.what == "changed" and not _agree(days.get((t.provider, t.purchase, t.term, t.since.date()), 0.0), t.new)
    ]
    return Compared(tuple(answers), tuple(invented))


def _answer(known: KnownChange, told: Collection[Told]) -> Answer:
    for one in told:
        if one.since.date() == known.on and _agree(one.new, known.new):
            return one.what
    on_the_way = any(at.date() == known.on and _agree(price, known.new) for one in told for at, price in one.steps)
    return "on the way" if on_the_way else "missed"


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= _CENT * other
