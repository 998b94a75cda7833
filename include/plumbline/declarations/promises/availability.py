"""The uptime of each calendar month, from incidents that people noted and from checks of the uptime, with the credit of its tier."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.declarations.promises.judging.evidence import CheckedMonth, LoggedOperation, PromiseEvidence, SharedTerms, maintenance
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow, format_seconds
from plumbline.declarations.promises.judging.share import PromisedShare, PromiseVerdict, interval_for, tries_to_keep
from plumbline.declarations.promises.judging.witnesses import ContradictedIncident, contradicted_incidents
from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import format_bounds, format_limit, format_percent, join_words
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.metrics.time_spans import TimeSpan, month_span, total_s, without
from plumbline.metrics.units import CreditShare, Share, exact

MONTHS = 13
"""The present month and a year of earlier ones: contracts let claims expire."""


class CreditTier(Declared):
    """A month whose availability is `below` a share earns this `credit`."""

    below: Share
    credit: CreditShare = Field(description="of the month's bill, such as 10%")


@register
class Availability(Promise[float]):
    id = "availability"
    fields: ClassVar = {
        "availability": (Share | None, Field(None, description="of the time of each calendar month (UTC), such as 99.9%")),
        "credits": (
            tuple[CreditTier, ...],
            Field((), max_length=20, description="by the availability of a month; the last one that fits counts"),
        ),
    }
    order = 30
    noun = "availability"
    credits = "credits"
    checked = True

    @classmethod
    def tiers(cls, terms: SharedTerms) -> tuple[CreditTier, ...]:
        tiers: tuple[CreditTier, ...] = cls.term(terms, cls.credits)
        return tiers

    def check(self, terms: SharedTerms) -> None:
        limits = [(self.promised(terms) or 0.0, 0.0), *((tier.below, tier.credit) for tier in self.tiers(terms))]
        for i, ((above, granted), (below, credit)) in enumerate(pairwise(limits)):
            if below > above or credit <= granted or (i and below == above):
                raise ValueError(f"credits[{i}] overlaps; expected `below` to fall from `availability` on, and `credit` to rise")

    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterator[JudgedPromise]:
        middle = month_span(seen.now)[0] + timedelta(days=14)  # of a month; so many months of mean length before it is another one's
        down = [(o.began, o.ended or seen.now) for o in seen.outages]
        begins = [middle - timedelta(days=30.4375 * back) for back in range(MONTHS)]
        months = [month_availability(at, seen.log, terms, seen.now, down, seen.months, seen.confirmed) for at in begins]
        first = max(
            (i for i, month in enumerate(months) if month.seen), default=0
        )  # a later month without evidence is one that nothing shows
        for month in months[: first + 1]:
            yield JudgedPromise(self, availability_row(month), "months", month.tier.credit if month.tier else None, month.begin)

    def never_shown(self, terms: SharedTerms, every_s: Mapping[str, float]) -> str:
        promised, every = self.promised(terms), every_s.get("uptime")
        if promised is None or every is None:
            return ""
        needed, days = tries_to_keep(promised), timedelta(days=30)
        if needed is None:
            return "no number of checks shows it kept, as each sees one instant"
        made = int(days.total_seconds() // every)
        if made >= needed:
            return ""
        return f"{needed:,} answered checks needed in a month, {made:,} made: {interval_for(needed, timedelta(days=28))} can show it kept"


@dataclass(frozen=True)
class MonthAvailability:
    """A provider's availability in the calendar month (UTC) from `begin`, maintenance left out. `judged`: of its seconds, those not proven to be
    down. `up_s`: those seen as up; `over`: the month is. `tier`: what the contract grants for it. `evidence`: ids of the outages, `last`: when the
    last one began. `checks`: answers of checks of its uptime, `unproven`: their misses that prove nothing. `contradicted`: incidents of the month that
    checks contradict, which prove nothing. `needed`: the answered checks that show the promise kept, None where no number does. `down`, `single_s`:
    as of `PromiseRow`."""

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
    contradicted: tuple[ContradictedIncident, ...] = ()
    needed: int | None = 0
    down: tuple[TimeSpan, ...] = ()
    single_s: float = 0.0

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
        seen = f"{format_percent(self.low, 3)} … {format_percent(self.high, 3)} up, {format_seconds(judged.failures)} proven down"
        if judged.promised is None:
            return not_shown(seen, "nothing is promised", "sla.availability of the provider")
        if judged.verdict != "not_shown":
            return met(seen) if judged.verdict == "kept" else broken(seen)
        if not judged.share.n:
            return not_shown("the whole month was maintenance", "no time counts", "a month without it")
        if self.contradicted:
            names = join_words([one.entry.entry_id for one in self.contradicted])
            return not_shown(seen, self.contradiction, f"a person's decision on log entry {names}: right, or corrected")
        missing = f"{format_seconds(self.unknown_s)} neither seen as up nor proven down"
        if not self.over:
            return not_shown(seen, f"the month is not over, {missing}", f"checks of its uptime until {month_span(self.begin)[1]:%Y-%m-%d}")
        allowed = format_seconds((1 - judged.promised) * judged.share.n)
        if self.unknown_s + judged.failures <= (1 - judged.promised) * judged.share.n:
            limit, enough = format_limit(judged.promised), "no number of checks" if self.needed is None else f"{self.needed:,} checks"
            return not_shown(seen, f"outages between {self.checks.successes:,} checks are not seen", f"{enough} of its uptime for {limit}")
        return not_shown(seen, missing, f"checks of its uptime that leave at most {allowed} of the month unknown or down")

    @property
    def contradiction(self) -> str:
        """What the log and the checks saw, where they contradict each other; else empty."""
        if not self.contradicted:
            return ""
        logged, up = (format_seconds(sum(s)) for s in zip(*((c.logged_s, c.up_s) for c in self.contradicted), strict=True))
        return f"the operations log has {logged} of incidents, of which checks saw {up} as up"


@judges("availability promise")
def month_availability(
    at: datetime,
    entries: Sequence[LoggedOperation],
    terms: SharedTerms,
    now: datetime,
    measured: Iterable[TimeSpan] = (),
    checked: Mapping[datetime, CheckedMonth] | None = None,
    confirmed: Collection[str] = (),
) -> MonthAvailability:
    """The availability of the month that `at` lies in, against the promise. `measured`: outages that checks found to be the provider's; `checked`:
    what its checks saw, by the begin of a month. `confirmed`: as of `PromiseEvidence`.

    Broken: the time that is proven to be down breaks it alone, however a month that lasts ends. Kept: the month is over, all that is not seen as
    up, counted as down, would keep it, and its answered checks are as many as a flawless record needs: an outage between two checks is not seen.
    Incidents prove a breach and nothing else; where people noted one, checks do not show that it was up. One that checks contradict proves nothing,
    and time that the log also says is ours is not the provider's.
    """
    begin, end = month_span(at)
    counted = without([(begin, end)], maintenance(entries, terms, now))
    every = {e.entry_id: (e.opened, e.solved or now) for e in entries if (e.kind, e.whose) == ("incident", "provider")}
    others = [(e.opened, e.solved or now, e.whose) for e in entries if e.kind == "incident" and e.whose != "provider"]
    doubtful = contradicted_incidents(entries, (checked or {}).values(), now, confirmed)
    here = tuple(one for one in doubtful if without(counted, [(one.entry.opened, one.ended)]) != counted)
    ours = [(first, last) for first, last, whose in others if whose == "us"]
    logged = {name: without([span], ours) for name, span in every.items() if name not in {one.entry.entry_id for one in doubtful}}
    noted = [span for spans in logged.values() for span in spans]
    outages = [span for span in (*noted, *measured) if without(counted, [span]) != counted]
    month = (checked or {}).get(begin)
    proven = 0.0 if month is None else _single_misses(month, [*outages, *ours])
    up, whole = total_s(without(counted, outages)) - proven, total_s(counted)
    doubted = [*outages, *every.values(), *((first, last) for first, last, _ in others)]
    seen_up = 0.0 if month is None else whole - total_s(without(counted, without(month.up, doubted)))

    def below(seconds: float, share: float) -> bool:  # exact: at a limit itself nothing is due
        return exact(seconds) < exact(share) * exact(whole)

    promised = Availability.promised(terms)
    needed = tries_to_keep(promised) if promised is not None else 0
    verdict: PromiseVerdict = "not_shown"
    if promised is None:
        verdict = "not_promised"
    elif below(up, promised):
        verdict = "broken"
    elif whole and now >= end and not below(seen_up, promised) and month and needed is not None and month.share.successes >= needed:
        verdict = "kept"
    share = Proportion(round(up), round(whole), up / whole if whole else None, None, None)
    return MonthAvailability(
        begin,
        PromisedShare(share, promised, verdict, None),
        next((tier for tier in reversed(Availability.tiers(terms)) if below(up, tier.below)), None),
        tuple(name for name, spans in logged.items() if any(span in outages for span in spans)),
        wilson_interval(0, 0) if month is None else month.share,
        max([*(first for first, _ in outages), *([month.single[-1][0]] if month is not None and proven else [])], default=None),
        seen_up,
        now >= end,
        0 if month is None else month.unproven + sum(month.own.values()),
        bool(outages or here or (month is not None and month.checked) or any(first < end and last > begin for first, last, _ in others)),
        here,
        needed,
        tuple(without(counted, without(counted, outages))),
        proven,
    )


def _single_misses(month: CheckedMonth, known: Sequence[TimeSpan]) -> float:
    """Proven seconds of misses outside outages, without those that fall into what is known otherwise."""
    single = total_s(month.single)
    return month.single_proven_s * total_s(without(month.single, known)) / single if single else 0.0


def availability_row(month: MonthAvailability) -> PromiseRow:
    """One month's availability between its bounds; incidents that people noted show a breach only."""
    judged, down, checks, judgement = month.judged, month.judged.failures, month.checks, month.judgement
    promised = "" if judged.promised is None else format_limit(judged.promised)
    if not month.seen:
        measured = "no check of its uptime counts and no incident of the provider's is logged"
    elif month.low and month.high is not None:
        measured = f"uptime {format_bounds((month.low, month.high), 4)}, {format_seconds(down)} down"
    else:
        measured = f"{format_percent(month.high, 4)} at most, {format_seconds(down)} down" if down else "nothing seen as up or down"
    if checks.n or month.unproven:
        measured += f"; {checks.successes:,} of {checks.n + month.unproven:,} checks answered"
    if month.unproven:
        measured += f", {month.unproven:,} missed for a cause that is not proven to be the provider's"
    if month.contradicted:
        measured += f"; {month.contradiction}"
    elif judged.verdict == "not_shown":
        measured += f"; {judgement.missing}"
    name = f"{Availability.noun} in {month.begin:%Y-%m}"  # without an interval: it is counted, not estimated
    return PromiseRow(
        name,
        promised,
        measured,
        "",
        judgement.decides if judged.promised else "",
        judged,
        month.evidence,
        last=month.last,
        down=month.down,
        single_s=month.single_s,
    )
