"""A history of prices, run through the check as if the days passed: what would have been found, held and left in peace.

Each confirmed change is accepted at once, or the next one could not be seen; what is held is never accepted. Pure: readings in, a list out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from plumbline.declarations.purchases import Purchase, Term
from plumbline.prices.check import LIST_MOVE, READINGS_NEEDED, SPOT_MOVE, Checked, check, moved
from plumbline.prices.reading import Reading

Key = tuple[str, Purchase, Term | None]


@dataclass(frozen=True)
class Told:
    """One thing that a person would have been told: a price that `changed`, or one that was `held`. Prices in USD per GPU-hour.

    `since`: when the price was read first, `told_at`: when that was enough to say so. `last`: when it was read last, of one that is held.
    `steps`: (when, price) of what was read on the way.
    """

    what: Literal["changed", "held"]
    provider: str
    purchase: Purchase
    term: Term | None
    since: datetime
    told_at: datetime
    last: datetime
    old: float | None
    new: float
    reason: str | None
    steps: tuple[tuple[datetime, float], ...]

    @property
    def effect(self) -> float | None:
        """The move as a fraction of the price before."""
        return None if self.old is None else self.new / self.old - 1


@dataclass
class Replayed:
    """What a history comes to. `raw_spot`: every move of a spot price from one reading to the next, `raw_spot_list` and `raw_spot_large` those
    of at least 1 % and at least 15 %."""

    told: list[Told] = field(default_factory=list)
    readings: int = 0
    series: int = 0
    first: datetime | None = None
    last: datetime | None = None
    raw_spot: int = 0
    raw_spot_list: int = 0
    raw_spot_large: int = 0

    def of(self, what: Literal["changed", "held"], *, spot: bool) -> list[Told]:
        """What was told of spot prices, or of list prices."""
        return [t for t in self.told if t.what == what and (t.purchase == "spot") is spot]

    @property
    def spot_cut(self) -> float | None:
        """The share of all moves of spot prices that nobody was told about; None if there were none."""
        alarms = sum(t.purchase == "spot" for t in self.told)
        return 1 - alarms / self.raw_spot if self.raw_spot else None


class _Series:
    """One price over time."""

    def __init__(self) -> None:
        self.readings: deque[Reading] = deque(maxlen=READINGS_NEEDED)
        self.accepted: float | None = None
        self.held: int | None = None  # where the hold that goes on stands in the list


def replay(readings: Iterable[Reading]) -> Replayed:
    """Feed readings through the check in the order of their times (the file's order does not matter)."""
    done = Replayed()
    series: dict[Key, _Series] = {}
    on_demand: dict[str, float] = {}
    # What an hour costs on demand is known before the reservations of the same time are held against it.
    for reading in sorted(readings, key=lambda r: (r.observed_at, r.purchase != "on_demand")):
        key = reading.provider, reading.purchase, reading.term
        one = series.setdefault(key, _Series())
        _count(done, one, reading)
        one.readings.append(reading)
        checked = check(one.readings, one.accepted, on_demand=on_demand.get(reading.provider))
        if reading.purchase == "on_demand" and checked.meaning != "held":
            on_demand[reading.provider] = checked.price
        _take(done, one, checked)
    done.series = len(series)
    return done


def _count(done: Replayed, one: _Series, reading: Reading) -> None:
    done.readings += 1
    done.first, done.last = done.first or reading.observed_at, reading.observed_at
    if reading.purchase == "spot" and one.readings:
        before, now = one.readings[-1].usd_per_gpu_hour, reading.usd_per_gpu_hour
        done.raw_spot += now != before
        if before > 0:
            done.raw_spot_list += moved(now, before, LIST_MOVE)
            done.raw_spot_large += moved(now, before, SPOT_MOVE)


def _take(done: Replayed, one: _Series, checked: Checked) -> None:
    """Note what the check said, and accept what it confirmed."""
    if checked.meaning == "held":
        standing = done.told[one.held] if one.held is not None else None
        if standing is not None and one.held is not None and _same(standing.new, checked.price):
            done.told[one.held] = replace(standing, last=checked.reading.observed_at)
            return
        one.held = len(done.told)
        done.told.append(_told("held", checked))
        return
    if checked.meaning != "seen_once":
        one.held = None
    if checked.meaning == "changed":
        done.told.append(_told("changed", checked))
    if checked.meaning in ("first", "changed"):
        one.accepted = checked.price


def _same(before: float, now: float) -> bool:
    return before == now or (before > 0 and now > 0 and not moved(now, before, LIST_MOVE))


def _told(what: Literal["changed", "held"], checked: Checked) -> Told:
    reading = checked.reading
    return Told(
        what,
        reading.provider,
        reading.purchase,
        reading.term,
        checked.since,
        reading.observed_at,
        reading.observed_at,
        checked.accepted,
        checked.price,
        checked.reason,
        tuple((step.observed_at, step.usd_per_gpu_hour) for step in checked.steps),
    )
