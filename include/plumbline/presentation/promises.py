"""Promises of a contract as rows of text: one set for scorecards, the page of promises, the command line and the claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from plumbline.analysis.cost.bill import Money, exact
from plumbline.analysis.operations import MonthAvailability, ResponseTime
from plumbline.analysis.scorecards.promises import PromisedShare, PromiseVerdict, SpeedFloor, tries_to_keep
from plumbline.analysis.scorecards.provisioning import LeadTime
from plumbline.declarations.providers.provider import ServiceLevel
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_bounds, format_count, format_limit, format_name, format_percent
from plumbline.metrics.proportions import CONFIDENCE, Proportion

AVAILABILITY = "availability"
"""The begin of the name of a promise whose credit is by tiers and for one month."""
_MARKS: dict[PromiseVerdict, Literal["good", "bad"]] = {"kept": "good", "broken": "bad"}


@dataclass(frozen=True)
class PromiseRow:
    """One promise. `promised`: empty without one. `measured` with its interval; `needed`: what would show it kept, in words; `tries`: the numbers.

    `evidence`: entries of the operations log that show it. `credit`: what a broken one grants, in words; `usd`: in money, None if unknown.
    `last`: when the last of what breaks it began, None where that is not known.
    """

    name: str
    promised: str
    measured: str
    interval: str
    needed: str
    tries: PromisedShare
    evidence: tuple[str, ...] = ()
    credit: str = ""
    usd: float | None = None
    last: datetime | None = None

    @property
    def verdict(self) -> PromiseVerdict:
        return self.tries.verdict

    @property
    def verdict_text(self) -> str:
        return f"{format_name(self.verdict)}{f', needs {self.needed}' if self.needed else ''}"

    @property
    def judged(self) -> str:
        """The promise and its verdict, beside a measurement."""
        return f"promised {self.promised}: {self.verdict_text}"

    @property
    def sentence(self) -> str:
        shown = f"; operations log: {', '.join(self.evidence)}" if self.evidence else ""
        return f"{self.name}: promised {self.promised}, measured {self.measured}{f' ({self.interval})' if self.interval else ''}{shown}"

    def granting(self, share: float, credit: Money | None) -> PromiseRow:
        """The row with its credit: a share of the month's bill, and in money if that is known."""
        money = f", {credit}" if credit is not None else ""
        return replace(self, credit=f"{format_limit(share)} of the month's bill{money}", usd=None if credit is None else credit.amount)

    @property
    def mark(self) -> Literal["good", "bad", ""]:
        return _MARKS.get(self.verdict, "")


def declared_promises(sla: ServiceLevel) -> list[str]:
    """What a contract promises, such as `availability 99.9 %` and `lead time 15.0 min`, in the order of its fields."""
    texts = []
    for name in sla.PROMISES:
        value = getattr(sla, name)
        if value is not None:
            is_share = name in ("launch_success", "availability", "capacity")
            text = format_limit(value) if is_share else common_scale("s", [value]).text(value)
            texts.append(f"{'lead time' if name == 'provisioning_lead_time' else format_name(name)} {text}")
    return [*texts, *(f"speed of {workload}" for workload in sorted(sla.speed_floors))]


def format_share(share: Proportion) -> str:
    return f"{share.successes} of {share.n} ({format_interval(share)})"


def launch_row(launch: PromisedShare) -> PromiseRow:
    """Launches that started."""
    promised = "" if launch.promised is None else format_percent(launch.promised, 1)
    measured = f"{launch.share.successes} of {launch.share.n} launches" if launch.share.n else "no launches"
    if launch.unproven:
        measured += f"; {launch.unproven} more failed for a cause that is not proven to be the provider's"
    return PromiseRow("launch success", promised, measured, format_interval(launch.share), _needed(launch, "launch", "failure"), launch)


def lead_time_row(lead: LeadTime) -> PromiseRow:
    """Launches that started in time."""
    promised = ""
    if lead.promised_s is not None and lead.kept.promised is not None:
        promised = f"{common_scale('s', [lead.promised_s]).text(lead.promised_s)} for {format_percent(lead.kept.promised)} of launches"
    share, middle = lead.kept.share, lead.time.value
    measured = lead.time.reason or "not measured"
    if middle is not None:
        measured = f"{share.successes} of {share.n} within it, median {common_scale('s', [middle]).text(middle)}"
    return PromiseRow("lead time", promised, measured, format_interval(share), _needed(lead.kept, "launch", "late one"), lead.kept)


def speed_row(speed: SpeedFloor) -> PromiseRow:
    """The median speed of a workload, with the interval over its repeats."""
    measured, criterion = speed.measured, speed.criterion
    scale = common_scale(METRICS[measured.metric].unit, [criterion.limit, measured.value], measured.metric)
    statistic = "" if criterion.statistic == METRICS[measured.metric].statistic else f" {criterion.statistic}"
    return PromiseRow(
        name=f"{format_name(measured.metric)}{statistic} of {speed.workload}",
        promised=f"{'at least' if criterion.op == '>=' else 'at most'} {scale.text(criterion.limit)}",
        measured=measured.reason or f"median {scale.text(measured.value)}, {speed.reached.share.successes} of {measured.n} repeats meet it",
        interval="" if (measured.coverage or 0.0) < CONFIDENCE else scale.interval(measured.low, measured.high),
        needed=_needed(speed.reached, "repeat", "miss"),
        tries=speed.reached,
    )


def capacity_row(capacity: PromisedShare, name: str = "capacity", tried: str = "launch", last: datetime | None = None) -> PromiseRow:
    """Launches, or checks, that got their nodes."""
    promised = "" if capacity.promised is None else format_limit(capacity.promised)
    share = capacity.share
    measured = f"{share.successes} of {share.n} {_plural(tried)} got their nodes" if share.n else f"no {_plural(tried)}"
    return PromiseRow(name, promised, measured, format_interval(share), _needed(capacity, tried, "refusal"), capacity, last=last)


def response_row(response: ResponseTime) -> PromiseRow:
    """Entries of the operations log that ended in time."""
    kept, noun = response.kept, "quota request" if response.kind == "quota" else response.kind
    promised = "" if response.promised_s is None else f"{_seconds(response.promised_s)} for {format_percent(kept.promised)} of {noun}s"
    measured = f"{kept.share.successes} of {format_count(kept.share.n, noun)} within it" if kept.share.n else f"no {noun} is logged"
    if response.checked and kept.share.n:
        measured += f", {response.checked} by checks of its uptime"
    if kept.unproven:
        measured += f"; {kept.unproven} more not known to be the provider's"
    needed, name = _needed(kept, noun, "late one"), format_name(response.name)
    return PromiseRow(name, promised, measured, format_interval(kept.share), needed, kept, response.late, last=response.last)


def availability_row(month: MonthAvailability) -> PromiseRow:
    """One month's availability between its bounds; incidents that people noted show a breach only."""
    judged, down, checks, judgement = month.judged, month.judged.failures, month.checks, month.judgement
    promised = "" if judged.promised is None else format_limit(judged.promised)
    if not month.seen:
        measured = "no check of its uptime counts and no incident of the provider's is logged"
    elif month.low and month.high is not None:
        measured = f"uptime {format_bounds((month.low, month.high), 4)}, {_seconds(down)} down"
    else:
        measured = f"{format_percent(month.high, 4)} at most, {_seconds(down)} down" if down else "nothing seen as up or down"
    if checks.n or month.unproven:
        measured += f"; {checks.successes:,} of {checks.n + month.unproven:,} checks answered"
    if month.unproven:
        measured += f", {month.unproven:,} missed for a cause that is not proven to be the provider's"
    if judged.verdict == "not_shown":
        measured += f"; {judgement.missing}"
    name = f"{AVAILABILITY} in {month.begin:%Y-%m}"  # without an interval: it is counted, not estimated
    return PromiseRow(name, promised, measured, "", judgement.decides if judged.promised else "", judged, month.evidence, last=month.last)


def total_credit(broken: Iterable[PromiseRow]) -> float | None:
    """The credits in USD of one month: those of availability, and once that of all other promises. None where one is unknown."""
    credits = {row.name if row.name.startswith(AVAILABILITY) else "": row.usd for row in broken}
    known = [exact(usd) for usd in credits.values() if usd is not None]
    return float(sum(known)) if known and len(known) == len(credits) else None


def _seconds(value: float) -> str:
    return common_scale("s", [value]).text(value)


def format_interval(share: Proportion) -> str:
    """The interval of a share; empty without observations."""
    return "" if share.low is None else f"{format_percent(share.low)} … {format_percent(share.high)}"


def _plural(tried: str) -> str:
    return f"{tried}{'es' if tried.endswith('h') else 's'}"


def _needed(judged: PromisedShare, tried: str, failed: str) -> str:
    """`381 launches without a failure, or 563 with 1, 532 more`: of a flawless record, and of this one."""
    if judged.verdict != "not_shown" or judged.promised is None:
        return ""
    tries = _plural(tried)
    if judged.needed is None:
        return f"an endless record of {tries} without a {failed}"
    flawless, more = f"{tries_to_keep(judged.promised)} {tries} without a {failed}", f"{judged.needed - judged.share.n} more"
    return f"{flawless}, or {judged.needed} with {judged.failures}, {more}" if judged.failures else f"{flawless}, {more}"
