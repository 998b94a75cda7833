"""Hours that reserved prices commit to, and the price below which renewing them pays. Days and months are UTC.

reserved = used + unused + ahead
renewing pays below the price elsewhere · used / (used + unused), where elsewhere only used hours are paid; of declared use only, as held
hours are the trials' part alone
"""

from __future__ import annotations

from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from fractions import Fraction

from plumbline.analysis.cost.bill import Money
from plumbline.analysis.cost.invoice import HeldSpan
from plumbline.analysis.prices.book import quote
from plumbline.declarations import Contract, Provider
from plumbline.declarations.providers.contract import ContractPrice
from plumbline.declarations.providers.provider import ContractSource
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.units import Amount, exact

_DAY = timedelta(days=1)
DAYS_A_MONTH = 365.25 / 12
USE = "Used: hours that trials held, or `committed.used` of the contract: other uses are not seen."


@dataclass(frozen=True)
class OtherPrice:
    """`usd_per_hour`: of as many of the same accelerator. `used`: the share of hours that one pays for; None of a price for every hour."""

    provider: str
    usd_per_hour: Amount
    purchase: Purchase
    used: float | None


@dataclass(frozen=True)
class Commitment:
    """A reserved price of a contract on the day `on`. Hours are of whole instances; `unused` ones passed. `renew_below`: USD an hour, None
    without a declared used hour (`used_declared`) that passed; `against`: the cheapest other price. `renewed`: until when the next one goes.
    `accelerators`: of an instance, 0 of CPUs. `used_share`: of the passed hours of declared use, None without any."""

    contract: str
    providers: tuple[str, ...]
    term: str | None
    since: date
    until: date
    on: date
    usd_per_hour: Amount
    reserved_h: float
    used_h: float
    unused_h: float
    ahead_h: float
    unused_usd: Money
    ahead_usd: Money
    renew_below: Amount | None
    against: OtherPrice | None
    renewed: date | None
    used_declared: bool
    accelerators: int = 0
    used_share: float | None = None

    @property
    def renewing_usd(self) -> float | None:
        """What renewing at this price saves a month of mean length against the other price, negative if it costs more; None where that is unknown."""
        days = (self.until - self.since).days
        if self.renew_below is None or not days:
            return None
        return (self.renew_below - self.usd_per_hour) * self.reserved_h / days * DAYS_A_MONTH

    @property
    def paid_usd(self) -> float:
        """What is paid for it, in a month of mean length."""
        days = (self.until - self.since).days
        return self.usd_per_hour * self.reserved_h / days * DAYS_A_MONTH if days else 0.0

    @property
    def running(self) -> bool:
        return self.since <= self.on < self.until


def contract_names(provider: Provider) -> set[str]:
    """The contracts that its price sources name."""
    return {source.contract for source in provider.price_sources if isinstance(source, ContractSource)}


def commitments(
    contracts: Sequence[Contract], providers: Mapping[str, Provider], spans: Iterable[HeldSpan], now: datetime
) -> tuple[Commitment, ...]:
    """Every committed price, by begin. `providers`: all declared ones, at effective prices; of them each contract is named by one at least.
    `spans`: since the first begin. A used hour is of one commitment, the one that began first."""
    free: dict[tuple[str, date], Fraction] = defaultdict(Fraction)
    for span in spans:
        for day in _days(span.start.date(), span.end.date() + _DAY):
            free[span.provider, day] += exact(span.within(day, day + _DAY))
    places = {c.name: [p for _, p in sorted(providers.items()) if c.name in contract_names(p)] for c in contracts}
    prices = sorted(((p.since, c.name, p.term or "", p) for c in contracts for p in c.prices if p.committed), key=lambda each: each[:3])
    found = []
    for since, contract, _, price in prices:
        own, until = places[contract], price.until
        assert until is not None  # as checked
        (reserved, used, unused), (known_used, known_passed) = _account(price, until, [p.name for p in own], free, now)
        usd = exact(price.price.amount) * exact(price.usd_per_unit) * (own[0].accelerator.count if price.price.per == "gpu_hour" else 1)
        ahead = reserved - used - unused
        following = (p.until for begin, name, _, p in prices if begin == until and {x.name for x in places[name]} & {x.name for x in own})
        others = _others(own, providers, now.date(), known_used / known_passed) if known_passed else []
        best = min(others, key=lambda each: (each[0], each[1].provider), default=None)
        found.append(
            Commitment(
                contract,
                tuple(p.name for p in own),
                price.term,
                since,
                until,
                now.date(),
                float(usd),
                float(reserved),
                float(used),
                float(unused),
                float(ahead),
                Money(float(unused * usd)),
                Money(float(ahead * usd)),
                None if best is None else best[0],
                None if best is None else best[1],
                max(filter(None, following), default=None),
                known_passed > 0,
                0 if own[0].accelerator.kind == "cpu" else own[0].accelerator.count,
                float(known_used / known_passed) if known_passed else None,
            )
        )
    return tuple(found)


def _account(
    price: ContractPrice, until: date, providers: Sequence[str], free: dict[tuple[str, date], Fraction], now: datetime
) -> tuple[tuple[Fraction, Fraction, Fraction], tuple[Fraction, Fraction]]:
    """Reserved, used and unused hours; and the used and the passed ones of months whose use is declared. The used ones are taken from `free`. Instances' hours end with their day, others with their month."""
    committed, periods, passed = price.committed, defaultdict[str, list[date]](list), datetime.combine(now.date(), time(), timezone.utc)
    assert committed is not None  # as the caller chose
    for day in _days(price.since, until):
        month = f"{day:%Y-%m}"
        periods[str(day) if committed.instances and month not in committed.used else month].append(day)
    total, known = [Fraction()] * 3, [Fraction()] * 2
    for period, days in periods.items():
        month_days = monthrange(days[0].year, days[0].month)[1]
        daily = Fraction(committed.instances * 24) if committed.instances else exact(committed.hours_per_month or 0) / month_days
        reserved = daily * len(days)
        used = exact(committed.used.get(period, 0))
        for key in ((name, day) for day in days for name in providers if period not in committed.used):
            taken = min(free[key], reserved - used)
            used, free[key] = used + taken, free[key] - taken
        used = min(used, reserved)
        gone = sum(day < now.date() for day in days) + (exact((now - passed) / _DAY) if now.date() in days else 0)
        unused = max(Fraction(), daily * gone - used) if committed.instances or gone == len(days) else Fraction()
        total = [a + b for a, b in zip(total, (reserved, used, unused), strict=True)]
        if period in committed.used:
            known = [known[0] + used, known[1] + used + unused]
    return (total[0], total[1], total[2]), (known[0], known[1])


def _others(own: Sequence[Provider], providers: Mapping[str, Provider], on: date, used: Fraction) -> list[tuple[float, OtherPrice]]:
    """Other prices of as many of the same accelerator: what an hour may cost beside them at the `used` share, and the price."""
    found, wanted, like = list[tuple[float, OtherPrice]](), own[0].accelerator, {"count", "memory"}
    for provider in (p for p in providers.values() if p in own or (p.enabled and p.simulated == own[0].simulated)):
        has, fits = provider.accelerator, provider.accelerator.model_dump(exclude=like) == wanted.model_dump(exclude=like)
        bases = [quote(provider, on).basis, quote(provider, on, "reserved").basis if provider not in own else None]
        for basis in filter(None, bases if fits else ()):
            usd, hourly = exact(basis.usd_per_hour) * wanted.count / has.count, basis.purchase != "reserved"
            other = OtherPrice(provider.name, float(usd), basis.purchase, float(used) if hourly else None)
            found.append((float(usd * (used if hourly else 1)), other))
    return found


def _days(first: date, after: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((after - first).days)]
