"""The operations log against a contract: times to recover and to answer, availability by calendar month, and the credit that is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from plumbline.analysis.availability import TimeSpan, month_span, total_s, without
from plumbline.analysis.cost.bill import Money, exact
from plumbline.analysis.scorecards.promises import PromisedShare, PromiseVerdict, judge_share
from plumbline.declarations import Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.provider import CreditTier, ServiceLevel
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.results.operations import LogEntryView, LogKind

_PROMISES: tuple[tuple[str, LogKind], ...] = (("time_to_recover", "incident"), ("support_response", "ticket"), ("quota_response", "quota"))


@dataclass(frozen=True)
class ResponseTime:
    """How many entries of a kind the provider ended within `promised_s`, maintenance not counted. `name`: of the promise in `sla`. Open ones count
    once they are late; `late`: ids of those that took longer. Incidents that are not known to be the provider's are unproven."""

    name: str
    kind: LogKind
    promised_s: float | None
    kept: PromisedShare
    late: tuple[str, ...]


def response_times(entries: Sequence[LogEntryView], sla: ServiceLevel, now: datetime) -> tuple[ResponseTime, ...]:
    """The times of the log's entries against the promised ones. Pure."""
    excluded, judged = maintenance(entries, sla, now), []
    for name, kind in _PROMISES:
        promised: float | None = getattr(sla, name)
        listed = [e for e in entries if e.kind == kind and e.whose != "us"]
        unknown = [e for e in listed if kind == "incident" and e.whose == "unknown"]
        kept, late = 0, []
        for entry in (e for e in listed if e not in unknown):
            # An incident is over, or a request has an answer.
            end = entry.solved if kind == "incident" else entry.answered or entry.solved
            taken = total_s(without([(entry.opened, end or now)], excluded))
            if promised is not None and taken > promised:
                late.append(entry.entry_id)
            elif end is not None:
                kept += 1
        share = judge_share(wilson_interval(kept, kept + len(late)), None if promised is None else sla.response_share, len(unknown))
        judged.append(ResponseTime(name, kind, promised, share, tuple(late)))
    return tuple(judged)


def maintenance(entries: Iterable[LogEntryView], sla: ServiceLevel, now: datetime) -> tuple[TimeSpan, ...]:
    """The provider's maintenance as declared and as logged; until now where its end is not known."""
    logged = ((e.opened, e.solved or now) for e in entries if e.kind == "maintenance" and e.whose != "us")
    return (*((window.since, window.until) for window in sla.maintenance), *logged)


@dataclass(frozen=True)
class MonthAvailability:
    """A provider's availability in the calendar month (UTC) from `begin`: of its seconds without maintenance, those with service. `tier`: what
    the contract grants for it. `evidence`: ids of the outages. `checks`: answers of checks of its uptime."""

    begin: datetime
    judged: PromisedShare
    tier: CreditTier | None
    evidence: tuple[str, ...]
    checks: Proportion


def month_availability(
    at: datetime,
    entries: Sequence[LogEntryView],
    sla: ServiceLevel,
    now: datetime,
    measured: Iterable[TimeSpan] = (),
    checked: Mapping[datetime, Proportion] | None = None,
) -> MonthAvailability:
    """The availability of the month that `at` lies in, against the promise. `measured`: outages that checks found to be the provider's; `checked`:
    answers of its checks, by the begin of a month.

    Incidents prove a breach and nothing else: that the promise is kept, enough checks show. The rest of a month that lasts counts as available, so that a breach of it is one however the month ends.
    """
    begin, end = month_span(at)
    counted = without([(begin, end)], maintenance(entries, sla, now))
    outages = {e.entry_id: (e.opened, e.solved or now) for e in entries if (e.kind, e.whose) == ("incident", "provider")}
    up, whole = total_s(without(counted, (*outages.values(), *measured))), total_s(counted)

    def below(share: float) -> bool:  # exact: at a limit itself nothing is due
        return exact(up) < exact(share) * exact(whole)

    share = Proportion(round(up), round(whole), up / whole if whole else None, None, None)
    checks = (checked or {}).get(begin, wilson_interval(0, 0))
    shown = judge_share(checks, sla.availability)
    broken = sla.availability is not None and below(sla.availability)
    verdict: PromiseVerdict = "broken" if broken else "not_shown" if shown.verdict == "broken" else shown.verdict
    return MonthAvailability(
        begin,
        PromisedShare(share, sla.availability, verdict, shown.needed if verdict == "not_shown" else None),
        next((tier for tier in reversed(sla.credits) if below(tier.below)), None),
        tuple(name for name, span in outages.items() if without(counted, [span]) != counted),
        checks,
    )


def credit_of(share: float, provider: Provider, volumes: Sequence[RentedVolume], at: datetime) -> Money | None:
    """The share that is granted of the bill of the month that `at` lies in, to the cent: the declared volumes, spread evenly over its days, each at
    its own price. None without volumes, or where a day has no price."""
    first, end = (each.date() for each in month_span(at))
    days, bill = [first + timedelta(days=n) for n in range((end - first).days)], Fraction(0)
    for volume in volumes:
        prices = [price.price for day in days if (price := provider.price_on(day, volume.purchase)) is not None]
        if len(prices) < len(days):
            return None
        bill += exact(volume.time_per_month) / 3600 * sum(map(exact, prices)) / len(days)
    return Money(float(Money(float(exact(share) * bill)).cents)) if bill else None
