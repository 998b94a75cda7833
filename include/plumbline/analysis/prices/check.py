"""The verdict on the readings of one price against the last accepted price. Pure.

A list price (on demand, reserved) has changed when it moved by 1 % or more and was seen twice, or a second source says the same. Of a spot
price the median of three readings counts, and 15 %. What no price should do is *held* and never used until a person or a second source confirms
it: a price of 0, a move of more than 60 %, a spot or reserved price that is not below the on-demand one or below a tenth of it. A second
source can confirm all but a price of 0. The first price of all is held too, unless it is declared (contract, simulation), a second source
says the same, or it is within the range of what its source lists elsewhere for that product and size, and a quarter beyond.

A reading that is held says nothing about the others: a price that was read before and after it was seen twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from statistics import median
from typing import Literal

from plumbline.metrics.units import Amount
from plumbline.results.price_reading import Reading

LIST_MOVE = 0.01
SPOT_MOVE = 0.15
IMPLAUSIBLE_MOVE = 0.60
LEAST_OF_ON_DEMAND = 0.10
BEYOND_TYPICAL = 0.25
"""How far, as a fraction, the cheapest and the dearest of a catalog may lie from the others."""
SPOT_READINGS = 3
CONFIRMATION_PERIOD = timedelta(days=3)
"""How long a catalog may say the same in one version until that counts as seen again, and how old a source's word may be to count at all."""
CATALOG_AGE = timedelta(days=30)
"""What a catalog of an older date says is no price of today. A CSV history may contain changes only, and a contract says when it ends."""
_DECLARED = ("contract", "simulated")
_PRIORITY = ("contract", "csv", "simulated", "gpuhunt")
_COSTS_ONLY = "opencost"
"""Whose readings are checked where several sources tell of one price, the first that is fresh; the others can only confirm. OpenCost tells
what was paid, discounts and idle hours included: that is no price that could have changed, so it never leads."""
READINGS_NEEDED = 30
"""How many of the newest readings of a price are enough to check it."""
APART = timedelta(hours=1)
"""How far two sightings lie apart at least: what is asked twice at once is one answer."""
_ROUNDING = 1e-9

PriceStatus = Literal["first", "unchanged", "seen_once", "changed", "held", "outdated"]
PriceReasonCode = Literal[
    "costs_nothing",
    "not_below_on_demand",
    "far_below_on_demand",
    "far_from_accepted",
    "median_far_from_accepted",
    "old",
    "first_alone",
    "first_unlike_others",
    "declared",
    "like_others",
    "confirmed",
]


@dataclass(frozen=True)
class PriceReason:
    """Why a price is held, outdated, or believed as the first one. `price` and what it was `compared` with: USD per GPU-hour. `days`: the
    age of the reading. `source`: the other one that confirms it. The rest is in the reading itself."""

    code: PriceReasonCode
    price: Amount = 0.0
    compared: float = 0.0
    days: int = 0
    source: str = ""


@dataclass(frozen=True)
class PriceVerdict:
    """The verdict on the newest `reading`, all prices in USD per GPU-hour.

    `price`: the price if it is accepted, of a spot price the median. `accepted`: what it was compared with. `since`: when it was
    first read so. `sightings` that agree. `confirmed_by`: the second source, if one did.
    `unproven`: it is held because nothing confirms it, not because something contradicts it. `steps`: prices that were read on the way and
    are neither the accepted one nor this one, oldest first.
    """

    status: PriceStatus
    reading: Reading
    price: Amount
    accepted: float | None
    since: datetime
    sightings: int = 1
    confirmed_by: str | None = None
    reason: PriceReason | None = None
    steps: tuple[Reading, ...] = ()
    unproven: bool = False

    @property
    def effect(self) -> float | None:
        """The move as a fraction of the accepted price; None without one."""
        return None if self.accepted is None else self.price / self.accepted - 1


def reports_prices(source: str) -> bool:
    """Whether the source reports prices; OpenCost reports what pods did cost."""
    return source != _COSTS_ONLY


def source_rank(source: str) -> tuple[int, str]:
    """Order of sources that disagree, the leading one first; sources of other packages come last."""
    return (_PRIORITY.index(source) if source in _PRIORITY else len(_PRIORITY)), source


def check_price(
    readings: Sequence[Reading],
    accepted: float | None,
    *,
    on_demand: float | None = None,
    now: datetime | None = None,
    repeated: Collection[str] = (),
    trust_first: bool = False,
) -> PriceVerdict:
    """What the readings of one provider, purchase and term, in the order in which they were observed, mean now.

    `accepted`: the accepted price in USD per GPU-hour, None if none ever was. `on_demand`: what the same hour costs on demand, to hold
    spot and reserved prices against. `now`: when the sources were asked last; what is three days old and still the newest counts as seen again
    where a source has its own dates: a row of a history, as only changes may be written there, and a reading whose id is in `repeated`, which
    a source gave again at `now`. `trust_first`: a first price that nothing contradicts is believed. The last `READINGS_NEEDED` readings are
    enough. ValueError if none is of a source that tells prices.
    """
    newest = next((r for r in reversed(readings) if reports_prices(r.source)), None)
    if newest is None:
        raise ValueError(f"there are no readings to check; expected at least one of {', '.join(_PRIORITY)}")
    others: list[Reading] = []
    own = readings
    if any(r.source != newest.source for r in readings):
        latest = {r.source: r for r in readings}
        fresh = [r for r in latest.values() if newest.observed_at - r.observed_at <= CONFIRMATION_PERIOD]
        lead = min((r for r in fresh if reports_prices(r.source)), key=lambda r: source_rank(r.source))
        own = [r for r in readings if r.source == lead.source]
        others = [r for r in fresh if r.source != lead.source]
    own = _sightings(own)
    latest_own = own[-1]
    age = now - latest_own.observed_at if now is not None else timedelta()
    old = PriceReason("old", days=age.days) if age > CATALOG_AGE and latest_own.source != "csv" else None
    if old is not None and accepted is not None:
        return PriceVerdict("outdated", latest_own, latest_own.usd_per_gpu_hour, accepted, latest_own.observed_at, reason=old)
    again = latest_own.source == "csv" or latest_own.reading_id in repeated
    if now is not None and again and latest_own.amount > 0 and age >= CONFIRMATION_PERIOD:
        own.append(replace(latest_own, observed_at=now))
    doubt = None if accepted is not None or trust_first else old or first_price_doubt(latest_own)
    check = _check_spot_price if newest.purchase == "spot" else _check_list_price
    return replace(check(own, others, accepted, on_demand, doubt), reading=latest_own)


def implausible(reading: Reading, accepted: float | None, on_demand: float | None) -> PriceReason | None:
    """Why a price is implausible; None if it is plausible. `on_demand`: what other purchases are compared with."""
    price = reading.usd_per_gpu_hour
    if not price > 0:
        return PriceReason("costs_nothing", price)
    if reading.purchase != "on_demand" and on_demand is not None:
        if price >= on_demand:
            return PriceReason("not_below_on_demand", price, on_demand)
        if price < LEAST_OF_ON_DEMAND * on_demand:
            return PriceReason("far_below_on_demand", price, on_demand)
    if accepted is not None and abs(price / accepted - 1) > IMPLAUSIBLE_MOVE + _ROUNDING:
        return PriceReason("far_from_accepted", price, accepted)
    return None


def first_price_doubt(reading: Reading) -> PriceReason | None:
    """Why a first price is not believed without a second source or a person; None if it is declared, or like what its source lists elsewhere."""
    if reading.source in _DECLARED:
        return None
    if reading.typical is None:
        return PriceReason("first_alone")
    low, high = reading.typical
    if low * (1 - BEYOND_TYPICAL) - _ROUNDING <= reading.usd_per_gpu_hour <= high * (1 + BEYOND_TYPICAL) + _ROUNDING:
        return None
    return PriceReason("first_unlike_others")


def moved_by(price: float, accepted: float, least: float) -> bool:
    """Whether a price is `least` (a fraction) or more away from the accepted one."""
    return abs(price / accepted - 1) >= least - _ROUNDING


def _second_source(others: Sequence[Reading], price: float, least: float) -> str | None:
    """The other source that says the same as `price`, which is above 0; None without one."""
    return next((o.source for o in others if price > 0 and o.usd_per_gpu_hour > 0 and not moved_by(o.usd_per_gpu_hour, price, least)), None)


def _first(checked: PriceVerdict, doubt: PriceReason | None) -> PriceVerdict:
    """A plausible price that follows none: believed, or held in `doubt` until a second source says the same."""
    if doubt is not None and checked.confirmed_by is None:
        return replace(checked, status="held", reason=doubt, unproven=True)
    if checked.confirmed_by is not None:
        return replace(checked, status="first", reason=PriceReason("confirmed", source=checked.confirmed_by))
    return replace(checked, status="first", reason=PriceReason("declared" if checked.reading.source in _DECLARED else "like_others"))


def _check_list_price(
    own: list[Reading], others: Sequence[Reading], accepted: float | None, on_demand: float | None, doubt: PriceReason | None
) -> PriceVerdict:
    newest = own[-1]
    price = newest.usd_per_gpu_hour
    if accepted is not None and not moved_by(price, accepted, LIST_MOVE):
        alike = 0
        while alike < len(own) and not moved_by(own[-1 - alike].usd_per_gpu_hour, accepted, LIST_MOVE):
            alike += 1
        return PriceVerdict("unchanged", newest, price, accepted, own[-alike].observed_at, alike)
    second = _second_source(others, price, LIST_MOVE)
    why = implausible(newest, accepted, on_demand)
    since, sightings, steps = _path(own, accepted, on_demand, why is not None)
    if why is not None and second is None:
        return PriceVerdict("held", newest, price, accepted, since, sightings, None, why, steps)
    if accepted is None:
        return _first(PriceVerdict("first", newest, price, None, since, sightings, second), doubt)
    status: PriceStatus = "changed" if sightings > 1 or second is not None else "seen_once"
    return PriceVerdict(status, newest, price, accepted, since, sightings, second, None, steps)


def _path(
    own: Sequence[Reading], accepted: float | None, on_demand: float | None, doubted: bool
) -> tuple[datetime, int, tuple[Reading, ...]]:
    """Since when the newest price is read, how often, and what else was read since the accepted one."""
    newest = own[-1]
    since, sightings, steps, together = newest.observed_at, 1, [], True
    for before in reversed(own[:-1]):
        price = before.usd_per_gpu_hour
        if accepted is not None and not moved_by(price, accepted, LIST_MOVE):
            break
        same = newest.usd_per_gpu_hour == price or (newest.usd_per_gpu_hour > 0 and not moved_by(price, newest.usd_per_gpu_hour, LIST_MOVE))
        doubtful = implausible(before, accepted, on_demand) is not None
        if same and together and doubtful == doubted:
            since, sightings = before.observed_at, sightings + 1
        elif not doubtful:
            together = False
            steps.append(before)
        elif doubted:
            together = False
    return since, sightings, tuple(next(same) for _, same in groupby(steps[::-1], attrgetter("usd_per_gpu_hour")))


def _check_spot_price(
    own: list[Reading], others: Sequence[Reading], accepted: float | None, on_demand: float | None, doubt: PriceReason | None
) -> PriceVerdict:
    newest = own[-1]
    newest_price = newest.usd_per_gpu_hour

    def contradiction(reading: Reading) -> PriceReason | None:
        # What is near the accepted price was accepted, by a person if nothing else speaks for it.
        agreed = accepted is not None and not moved_by(reading.usd_per_gpu_hour, accepted, SPOT_MOVE)
        return None if agreed else implausible(reading, None, on_demand)

    second = _second_source(others, newest_price, SPOT_MOVE)
    why = contradiction(newest)
    since, sightings, _ = _path(own, None, on_demand, why is not None)
    if why is not None and second is None:
        return PriceVerdict("held", newest, newest_price, accepted, since, sightings, None, why)
    if accepted is None:
        return _first(PriceVerdict("first", newest, newest_price, None, since, sightings, second), doubt)
    counted = [r for r in own if r is newest or contradiction(r) is None][-SPOT_READINGS:]
    if len(counted) < SPOT_READINGS:
        status: PriceStatus = "seen_once" if moved_by(newest_price, accepted, SPOT_MOVE) else "unchanged"
        return PriceVerdict(status, newest, newest_price, accepted, newest.observed_at)
    price = median(r.usd_per_gpu_hour for r in counted)
    apart = [r for r in counted if moved_by(r.usd_per_gpu_hour, accepted, SPOT_MOVE)]
    if not moved_by(price, accepted, SPOT_MOVE):
        status = "seen_once" if newest in apart else "unchanged"
        return PriceVerdict(status, newest, price, accepted, newest.observed_at)
    second = _second_source(others, price, SPOT_MOVE)
    since = apart[0].observed_at
    if abs(price / accepted - 1) > IMPLAUSIBLE_MOVE + _ROUNDING and second is None:
        why = PriceReason("median_far_from_accepted", price, accepted)
        return PriceVerdict("held", newest, price, accepted, since, len(apart), None, why)
    return PriceVerdict("changed", newest, price, accepted, since, len(apart), second)


def _sightings(own: Sequence[Reading]) -> list[Reading]:
    """The readings that count: the same answer soon after counts once, and a catalog that is read again in the same version said nothing new."""
    counted: list[Reading] = []
    for reading in own:
        last = counted[-1] if counted else None
        same_catalog = last is not None and reading.source == "gpuhunt" and reading.source_version == last.source_version
        apart = CONFIRMATION_PERIOD if same_catalog else APART
        if last is None or reading.amount != last.amount or reading.observed_at - last.observed_at >= apart:
            counted.append(reading)
    return counted
