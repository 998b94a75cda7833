"""A history of prices, run through the check as if the days passed: changes that it reports, holds and ignores, compared with known ones.

Each confirmed change is accepted at once, or the next one could not be seen, and so is a first price that nothing contradicts; what is
held is never accepted. Pure: readings in, a list out."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Literal

from plumbline.analysis.prices.check import LIST_MOVE, READINGS_NEEDED, SPOT_MOVE, PriceVerdict, check_price, moved_by
from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.price_sources.csv_history import PURCHASES, HistoryError, name_of, rows_of
from plumbline.results.price_reading import Reading
from plumbline.words.prices import verdict_reason

Key = tuple[str, Purchase, Term | None]


@dataclass(frozen=True)
class ReplayAlert:
    """One report that the history would have caused: a price that `changed`, or one that was `held`. Prices in USD per GPU-hour.

    `since`: when the price was read first, `reported_at`: when that was enough to say so. `last`: when it was read last, of one that is held.
    `steps`: (when, price) of what was read on the way.
    """

    what: Literal["changed", "held"]
    provider: str
    purchase: Purchase
    term: Term | None
    since: datetime
    reported_at: datetime
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
class ReplayResult:
    """What a history comes to. `raw_spot`: every move of a spot price from one reading to the next, `raw_spot_list` and `raw_spot_large` those
    of at least 1 % and at least 15 %."""

    alerts: list[ReplayAlert] = field(default_factory=list)
    readings: int = 0
    series: int = 0
    first: datetime | None = None
    last: datetime | None = None
    raw_spot: int = 0
    raw_spot_list: int = 0
    raw_spot_large: int = 0

    def of(self, what: Literal["changed", "held"], *, spot: bool) -> list[ReplayAlert]:
        """Reports about spot prices, or about list prices."""
        return [t for t in self.alerts if t.what == what and (t.purchase == "spot") is spot]

    @property
    def spot_cut(self) -> float | None:
        """The share of all moves of spot prices that caused no report; None if there were none."""
        alarms = sum(t.purchase == "spot" for t in self.alerts)
        return 1 - alarms / self.raw_spot if self.raw_spot else None


class _Series:
    """One price over time."""

    def __init__(self) -> None:
        self.readings: deque[Reading] = deque(maxlen=READINGS_NEEDED)
        self.accepted: float | None = None
        self.held: int | None = None  # where the hold that goes on stands in the list


def replay_readings(readings: Iterable[Reading]) -> ReplayResult:
    """Feed readings through the check in the order of their times (the file's order does not matter)."""
    done = ReplayResult()
    series: dict[Key, _Series] = {}
    on_demand: dict[str, float] = {}
    # What an hour costs on demand is known before the other purchases of the same time are compared with it.
    for reading in sorted(readings, key=lambda r: (r.observed_at, r.purchase != "on_demand")):
        key = reading.provider, reading.purchase, reading.term
        one = series.setdefault(key, _Series())
        _count(done, one, reading)
        one.readings.append(reading)
        checked = check_price(one.readings, one.accepted, on_demand=on_demand.get(reading.provider), trust_first=True)
        if reading.purchase == "on_demand" and checked.status != "held":
            on_demand[reading.provider] = checked.price
        _apply_verdict(done, one, checked)
    done.series = len(series)
    return done


def _count(done: ReplayResult, one: _Series, reading: Reading) -> None:
    done.readings += 1
    done.first, done.last = done.first or reading.observed_at, reading.observed_at
    if reading.purchase == "spot" and one.readings:
        before, now = one.readings[-1].usd_per_gpu_hour, reading.usd_per_gpu_hour
        done.raw_spot += now != before
        if before > 0:
            done.raw_spot_list += moved_by(now, before, LIST_MOVE)
            done.raw_spot_large += moved_by(now, before, SPOT_MOVE)


def _apply_verdict(done: ReplayResult, one: _Series, checked: PriceVerdict) -> None:
    """Note what the check said, and accept what it confirmed."""
    if checked.status == "held":
        alert = done.alerts[one.held] if one.held is not None else None
        if alert is not None and one.held is not None and _is_same_price(alert.new, checked.price):
            done.alerts[one.held] = replace(alert, last=checked.reading.observed_at)
            return
        one.held = len(done.alerts)
        done.alerts.append(_alert_of("held", checked))
        return
    if checked.status != "seen_once":
        one.held = None
    if checked.status == "changed":
        done.alerts.append(_alert_of("changed", checked))
    if checked.status in ("first", "changed"):
        one.accepted = checked.price


def _is_same_price(before: float, now: float) -> bool:
    return before == now or (before > 0 and now > 0 and not moved_by(now, before, LIST_MOVE))


def _alert_of(what: Literal["changed", "held"], checked: PriceVerdict) -> ReplayAlert:
    reading = checked.reading
    return ReplayAlert(
        what,
        reading.provider,
        reading.purchase,
        reading.term,
        checked.since,
        reading.observed_at,
        reading.observed_at,
        checked.accepted,
        checked.price,
        verdict_reason(checked),
        tuple((step.observed_at, step.usd_per_gpu_hour) for step in checked.steps),
    )


@dataclass(frozen=True)
class KnownChange:
    """A price that moved from `old` to `new`, in USD per GPU-hour, as read first on the day `on`."""

    provider: str
    purchase: Purchase
    term: Term | None
    on: date
    old: float
    new: float


_CHANGE_COLUMNS = ("date", "provider", "region", "instance_type", "purchase", "old_usd_per_gpu_hour", "new_usd_per_gpu_hour")


def known_changes(path: Path) -> list[KnownChange]:
    """The changes of a CSV file, in its order. HistoryError for a file that cannot be read, with its first wrong line."""
    changes = []
    for line, row in rows_of(path, _CHANGE_COLUMNS):
        try:
            purchase, term = PURCHASES[row["purchase"] or ""]
            old, new = (float(row[column] or "") for column in ("old_usd_per_gpu_hour", "new_usd_per_gpu_hour"))
            on = date.fromisoformat(row["date"] or "")
            if not (0 <= old < math.inf and 0 <= new < math.inf):
                raise ValueError(f"{old:g} → {new:g} USD is not a price change")
        except (KeyError, ValueError) as error:
            expected = f"a date such as 2026-01-31, a purchase of {', '.join(PURCHASES)}, and two numbers, at least 0"
            raise HistoryError(f"{path}:{line} cannot be read ({error}); expected {expected}") from error
        changes.append(KnownChange(name_of(row), purchase, term, on, old, new))
    return changes


Answer = Literal["changed", "held", "on the way", "missed"]
_CENT = 1e-4
"""Prices agree to this fraction: a file rounds what another does not."""


@dataclass(frozen=True)
class ReplayEvaluation:
    """Known list-price changes of 1 % and more with the replay's answer to each; `invented`: changes that the replay reported and that are not known.

    `on the way`: a price that was read once before the next one came; it is named in the change, or in the hold, that followed it.
    """

    answers: tuple[tuple[KnownChange, Answer], ...]
    invented: tuple[ReplayAlert, ...]

    @property
    def counts(self) -> Counter[Answer]:
        """How many known changes got which answer."""
        return Counter(answer for _, answer in self.answers)


def evaluate_replay(replayed: ReplayResult, known: Sequence[KnownChange]) -> ReplayEvaluation:
    """Compare a replay's reports about list prices with the known changes; known changes below 1 % may be reported or not."""
    listed = [k for k in known if k.purchase != "spot"]
    alerts = [t for t in replayed.alerts if t.purchase != "spot"]
    by_key: dict[tuple[str, Purchase, Term | None], list[ReplayAlert]] = {}
    for one in alerts:
        by_key.setdefault((one.provider, one.purchase, one.term), []).append(one)
    answers = [
        (k, _answer(k, by_key.get((k.provider, k.purchase, k.term), ()))) for k in listed if k.old > 0 and moved_by(k.new, k.old, LIST_MOVE)
    ]
    days = {(k.provider, k.purchase, k.term, k.on): k.new for k in listed}
    invented = [
        t for t in alerts if t.what == "changed" and not _agree(days.get((t.provider, t.purchase, t.term, t.since.date()), 0.0), t.new)
    ]
    return ReplayEvaluation(tuple(answers), tuple(invented))


def _answer(known: KnownChange, alerts: Collection[ReplayAlert]) -> Answer:
    for one in alerts:
        if one.since.date() == known.on and _agree(one.new, known.new):
            return one.what
    on_the_way = any(at.date() == known.on and _agree(price, known.new) for one in alerts for at, price in one.steps)
    return "on the way" if on_the_way else "missed"


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= _CENT * other
