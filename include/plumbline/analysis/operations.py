"""The operations log against a contract: times to recover and to answer, availability by calendar month, and the credit that is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from plumbline.analysis.availability import Availability, Outage, TimeSpan, month_span, total_s, without
from plumbline.analysis.cost.bill import Money, exact
from plumbline.analysis.scorecards.promises import PromisedShare, PromiseVerdict, judge_share
from plumbline.declarations import Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.provider import CreditTier, ServiceLevel
from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import common_scale, format_percent
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
    """A provider's availability in the calendar month (UTC) from `begin`, maintenance left out. `judged`: of its seconds, those not proven to be
    down. `up_s`: those seen as up; `over`: the month is. `tier`: what the contract grants for it. `evidence`: ids of the outages, `last`: when the
    last one began. `checks`: answers of checks of its uptime, `unproven`: their misses that prove nothing."""

    begin: datetime
    judged: PromisedShare
    tier: CreditTier | None
    evidence: tuple[str, ...]
    checks: Proportion
    last: datetime | None = None
    up_s: float = 0.0
    over: bool = True
    unproven: int = 0
    seen: bool = False
    """Whether anything bears on the month: a check or an incident."""

    @property
    def low(self) -> float | None:
        """The lower bound of the uptime: all that is not seen as up counted as down."""
        return self.up_s / self.judged.share.n if self.judged.share.n else None

    @property
    def high(self) -> float | None:
        """The upper bound of the uptime: only what is proven counted as down."""
        return self.judged.share.ratio

    @property
    def unknown_s(self) -> float:
        return max(0.0, self.judged.share.successes - self.up_s)

    @property
    def judgement(self) -> Judgement:
        judged = self.judged
        seen = f"{format_percent(self.low, 3)} … {format_percent(self.high, 3)} up, {_seconds(judged.failures)} proven down"
        if judged.promised is None:
            return not_shown(seen, "nothing is promised", "sla.availability of the provider")
        if judged.verdict != "not_shown":
            return met(seen) if judged.verdict == "kept" else broken(seen)
        if not judged.share.n:
            return not_shown("the whole month was maintenance", "no time counts", "a month without it")
        missing = f"{_seconds(self.unknown_s)} neither seen as up nor proven down"
        if not self.over:
            return not_shown(seen, f"the month is not over, {missing}", f"checks of its uptime until {month_span(self.begin)[1]:%Y-%m-%d}")
        allowed = _seconds((1 - judged.promised) * judged.share.n)
        return not_shown(seen, missing, f"checks of its uptime that leave at most {allowed} of the month unknown or down")


@judges("availability promise")
def month_availability(
    at: datetime,
    entries: Sequence[LogEntryView],
    sla: ServiceLevel,
    now: datetime,
    measured: Iterable[TimeSpan] = (),
    checked: Mapping[datetime, Availability] | None = None,
) -> MonthAvailability:
    """The availability of the month that `at` lies in, against the promise. `measured`: outages that checks found to be the provider's; `checked`:
    what its checks saw, by the begin of a month.

    Broken: the time that is proven to be down breaks it alone, however a month that lasts ends. Kept: the month is over, and all that is not seen as
    up, counted as down, would keep it. Incidents prove a breach and nothing else; where people noted one, checks do not show that it was up.
    """
    begin, end = month_span(at)
    counted = without([(begin, end)], maintenance(entries, sla, now))
    logged = {e.entry_id: (e.opened, e.solved or now) for e in entries if (e.kind, e.whose) == ("incident", "provider")}
    others = [(e.opened, e.solved or now, e.whose) for e in entries if e.kind == "incident" and e.whose != "provider"]
    outages = [span for span in (*logged.values(), *measured) if without(counted, [span]) != counted]
    month = (checked or {}).get(begin)
    proven = 0.0 if month is None else _single_misses(month, [*outages, *((first, last) for first, last, whose in others if whose == "us")])
    up, whole = total_s(without(counted, outages)) - proven, total_s(counted)
    doubted = [*outages, *((first, last) for first, last, _ in others)]
    seen_up = 0.0 if month is None else whole - total_s(without(counted, without(month.up, doubted)))

    def below(seconds: float, share: float) -> bool:  # exact: at a limit itself nothing is due
        return exact(seconds) < exact(share) * exact(whole)

    verdict: PromiseVerdict = "not_shown"
    if sla.availability is None:
        verdict = "not_promised"
    elif below(up, sla.availability):
        verdict = "broken"
    elif whole and now >= end and not below(seen_up, sla.availability):
        verdict = "kept"
    share = Proportion(round(up), round(whole), up / whole if whole else None, None, None)
    return MonthAvailability(
        begin,
        PromisedShare(share, sla.availability, verdict, None),
        next((tier for tier in reversed(sla.credits) if below(up, tier.below)), None),
        tuple(name for name, span in logged.items() if span in outages),
        wilson_interval(0, 0) if month is None else month.share,
        max([*(first for first, _ in outages), *([month.single[-1][0]] if month is not None and proven else [])], default=None),
        seen_up,
        now >= end,
        0 if month is None else month.unproven + sum(month.own.values()),
        bool(outages or (month is not None and month.checked) or any(first < end and last > begin for first, last, _ in others)),
    )


def _single_misses(month: Availability, known: Sequence[TimeSpan]) -> float:
    """Proven seconds of misses outside outages, without those that fall into what is known otherwise."""
    single = total_s(month.single)
    return month.single_proven_s * total_s(without(month.single, known)) / single if single else 0.0


def _seconds(value: float) -> str:
    return common_scale("s", [value]).text(value)


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
