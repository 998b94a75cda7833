"""The operations log against a contract: times to recover and to answer, availability by calendar month, and the credit that is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from plumbline.analysis.availability import Outage, TimeSpan, month_span, total_s, without
from plumbline.analysis.cost.bill import Money, exact
from plumbline.analysis.scorecards.promises import PromisedShare, PromiseVerdict, judge_share
from plumbline.declarations import Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.provider import CreditTier, ServiceLevel
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.results.operations import LogEntryView, LogKind, Whose

_PROMISES: tuple[tuple[str, LogKind], ...] = (("time_to_recover", "incident"), ("support_response", "ticket"), ("quota_response", "quota"))


@dataclass(frozen=True)
class ResponseTime:
    """How many entries of a kind the provider ended within `promised_s`, maintenance not counted. `name`: of the promise in `sla`. Open ones count
    once they are late; `late`: ids of those that took longer, `last`: when the last of them began. Incidents that are not known to be the
    provider's are unproven. `checked`: incidents that checks of its uptime found and the log does not have."""

    name: str
    kind: LogKind
    promised_s: float | None
    kept: PromisedShare
    late: tuple[str, ...]
    last: datetime | None = None
    checked: int = 0


def response_times(
    entries: Sequence[LogEntryView], sla: ServiceLevel, now: datetime, measured: Iterable[Outage] = ()
) -> tuple[ResponseTime, ...]:
    """The times of the log's entries, and of the provider's outages that checks found, against the promised ones. Pure."""
    excluded, judged = maintenance(entries, sla, now), []
    outages = [o for o in measured if not _logged(o, entries, ("provider", "unknown"), now)]
    for name, kind in _PROMISES:
        promised: float | None = getattr(sla, name)
        listed = [e for e in entries if e.kind == kind and e.whose != "us"]
        unknown = [e for e in listed if kind == "incident" and e.whose == "unknown"]
        # An incident is over, or a request has an answer.
        ends = [(e, e.solved if kind == "incident" else e.answered or e.solved) for e in listed if e not in unknown]
        tries = [(e.entry_id, e.opened, end or now, end is not None) for e, end in ends]
        checked = [("", o.began, o.ended or now, o.recovery_s is not None) for o in outages] if kind == "incident" else []
        kept, late = 0, []
        for entry_id, begin, until, ended in (*tries, *checked):
            if promised is not None and total_s(without([(begin, until)], excluded)) > promised:
                late.append((begin, entry_id))
            else:
                kept += ended
        share = judge_share(wilson_interval(kept, kept + len(late)), None if promised is None else sla.response_share, len(unknown))
        ids, last = tuple(entry_id for _, entry_id in late if entry_id), max((begin for begin, _ in late), default=None)
        judged.append(ResponseTime(name, kind, promised, share, ids, last, len(checked)))
    return tuple(judged)


def provider_outages(outages: Iterable[Outage], entries: Sequence[LogEntryView], now: datetime) -> tuple[Outage, ...]:
    """Outages that checks found to be the provider's, without those that the log says are ours."""
    return tuple(o for o in outages if o.whose == "provider" and not _logged(o, entries, ("us",), now))


def _logged(outage: Outage, entries: Iterable[LogEntryView], whose: tuple[Whose, ...], now: datetime) -> bool:
    """Whether the log has an incident of theirs at that time."""
    incidents = (e for e in entries if e.kind == "incident" and e.whose in whose)
    return any(e.opened < (outage.ended or now) and outage.began < (e.solved or now) for e in incidents)


def maintenance(entries: Iterable[LogEntryView], sla: ServiceLevel, now: datetime) -> tuple[TimeSpan, ...]:
    """The provider's maintenance as declared and as logged; until now where its end is not known."""
    logged = ((e.opened, e.solved or now) for e in entries if e.kind == "maintenance" and e.whose != "us")
    return (*((window.since, window.until) for window in sla.maintenance), *logged)


@dataclass(frozen=True)
class MonthAvailability:
    """A provider's availability in the calendar month (UTC) from `begin`: of its seconds without maintenance, those with service. `tier`: what
    the contract grants for it. `evidence`: ids of the outages, `last`: when the last one began. `checks`: answers of checks of its uptime."""

    begin: datetime
    judged: PromisedShare
    tier: CreditTier | None
    evidence: tuple[str, ...]
    checks: Proportion
    last: datetime | None = None


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
    logged = {e.entry_id: (e.opened, e.solved or now) for e in entries if (e.kind, e.whose) == ("incident", "provider")}
    outages = [span for span in (*logged.values(), *measured) if without(counted, [span]) != counted]
    up, whole = total_s(without(counted, outages)), total_s(counted)

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
        tuple(name for name, span in logged.items() if span in outages),
        checks,
        max((first for first, _ in outages), default=None),
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
