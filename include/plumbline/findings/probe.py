"""Findings of probes between campaigns: hardware that became slower.

One slow probe proves nothing (a neighbour, another node, a warm room) and only asks for another one. The second in a row opens a finding,
until a probe is back to the usual level or a person accepts it. Faster hardware opens none, and later probes are compared with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

from plumbline.findings import Reconciliation, provider_finding, unsettled_id
from plumbline.findings.types.probe import Probe
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_change, format_probe_name, format_quantity
from plumbline.results.finding import Finding, Member

DEFAULT_LIMIT = 0.05
"""How much worse than usual a figure must be, as a share, if its metric has no declared threshold."""
CONFIRMATIONS = 2
"""Slow probes in a row that open a finding."""
USUAL_PROBES = 5
"""The usual figure is the median of this many last good probes."""


@dataclass(frozen=True)
class ProbeResult:
    """`figures`: metric → value in SI units, of what could be measured."""

    day: date
    figures: Mapping[str, float]


@dataclass(frozen=True)
class ProbeVerdict:
    """A metric of the last probe. `usual`: the median of the last good probes before it, None without any. `slow`: how many probes in a row, up
    to the last, were worse than that by the metric's limit, `since` the first. `effect`: the change as a share of the usual."""

    metric: str
    value: float
    usual: float | None
    slow: int
    since: date | None

    @property
    def effect(self) -> float:
        return 0.0 if self.usual is None else self.value / self.usual - 1.0

    @property
    def text(self) -> str:
        """The figure as text, such as `matmul 791 TFLOP/s → 652 TFLOP/s (−18 %)`; only the value without a usual one."""
        unit = METRICS[self.metric].unit
        if self.usual is None:
            return f"{format_probe_name(self.metric)} {format_quantity(self.value, unit)}"
        return f"{format_probe_name(self.metric)} {format_quantity(self.usual, unit)} → {format_quantity(self.value, unit)} ({format_change(self.effect)})"


@dataclass(frozen=True)
class ProbeReconciliation(Reconciliation):
    """`judged`: every metric of the last probe. `changes` start a benchmark: {fact, old, new}, when a finding opens."""

    judged: tuple[ProbeVerdict, ...] = ()
    changes: tuple[Mapping[str, str], ...] = ()

    @property
    def again(self) -> bool:
        """Whether another probe is due soon."""
        return any(0 < j.slow < CONFIRMATIONS for j in self.judged)


def judge_probes(history: Sequence[ProbeResult], limits: Mapping[str, float]) -> tuple[ProbeVerdict, ...]:
    """The metrics of the last probe of a `history` (oldest first), by name. `limits`: by metric, the share that counts as slower.

    A slow figure is also worse than every probe behind the usual figure, so that scatter does not count.
    """
    if not history:
        return ()
    verdicts = []
    for metric in sorted(distinct_metrics(history[-1].figures)):
        good: list[float] = []
        slow: list[date] = []
        usual: float | None = None
        value = history[-1].figures[metric]
        for day, value in ((p.day, p.figures[metric]) for p in history if metric in p.figures):
            last = good[-USUAL_PROBES:]
            usual = median(last) if last else None
            if usual is not None and _is_worse(metric, value, usual, last, limits.get(metric, DEFAULT_LIMIT)):
                slow.append(day)
            else:
                slow = []
                good.append(value)
        verdicts.append(ProbeVerdict(metric, value, usual, len(slow), slow[0] if slow else None))
    return tuple(verdicts)


def reconcile_probes(
    provider: str,
    history: Sequence[ProbeResult],
    limits: Mapping[str, float],
    open_findings: Sequence[Finding],
    *,
    rerun: str,
    simulated: bool = False,
    settled: Collection[str] = (),
) -> ProbeReconciliation:
    """Compare the last probe with the history. `open_findings`: the provider's unsettled findings, `settled` the ids of the others; `rerun`: a phrase,
    what starts because of it, or why nothing does."""
    now = judge_probes(history, limits)
    slow = sorted((j for j in now if j.slow >= CONFIRMATIONS), key=lambda j: j.effect * _sign(j.metric))
    known = next((s for s in open_findings if s.provider == provider and Probe.has(s)), None)
    if known is not None:
        measured = {j.metric: j for j in now}
        unseen = [m for m in known.members if m.name not in measured]
        doubtful = [m for m in known.members if m.name in measured and 0 < measured[m.name].slow < CONFIRMATIONS]
        if not (slow or unseen or doubtful):
            day = history[-1].day
            back = ", ".join(
                f"{format_probe_name(m.name)} {format_quantity(measured[m.name].value, METRICS[m.name].unit)}" for m in known.members
            )
            return ProbeReconciliation(judged=now, resolved=((known, f"resolved: the probe of {day} is back to the usual level: {back}"),))
        members = (*map(_member, slow), *unseen, *doubtful)
        if {m.name for m in members} == {m.name for m in known.members}:
            return ProbeReconciliation(judged=now)
        latest = _finding(known.finding_id, provider, members, slow, known.since or "", rerun, simulated)
        return ProbeReconciliation(judged=now, continued=(replace(latest, state=known.state),))
    if not slow:
        return ProbeReconciliation(judged=now)
    since = min(j.since for j in slow if j.since is not None).isoformat()
    name = unsettled_id(provider, since, "performance", Probe.subject, settled)
    unit = {j.metric: METRICS[j.metric].unit for j in slow}
    changes = tuple(
        {"fact": j.metric, "old": format_quantity(j.usual, unit[j.metric]), "new": format_quantity(j.value, unit[j.metric])} for j in slow
    )
    opened = _finding(name, provider, tuple(map(_member, slow)), slow, since, rerun, simulated)
    return ProbeReconciliation((opened,), judged=now, changes=changes)


def distinct_metrics(figures: Mapping[str, float]) -> set[str]:
    """The metrics without the number format whose figure `matmul_tflops` repeats."""
    same = {m for m, value in figures.items() if m.startswith("matmul_tflops_") and value == figures.get("matmul_tflops")}
    return set(figures) - same


def _sign(metric: str) -> int:
    return -1 if METRICS[metric].direction == "lower_is_better" else 1


def _is_worse(metric: str, value: float, usual: float, last: Sequence[float], limit: float) -> bool:
    sign = _sign(metric)
    return sign * (value / usual - 1.0) <= -limit and all(sign * value < sign * one for one in last)


def _member(judged: ProbeVerdict) -> Member:
    return Member(judged.metric, judged.text, judged.effect, verdict="regressed")


def _finding(
    name: str, provider: str, members: tuple[Member, ...], slow: Sequence[ProbeVerdict], since: str, rerun: str, simulated: bool
) -> Finding:
    lead = slow[0] if slow else None
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    title = f"slower in probes: {members[0].text}{more}"
    times = f"{lead.slow} probes in a row" if lead is not None else "not measured again"
    return provider_finding(
        provider,
        "performance",
        Probe.subject,
        name=name,
        since=since,
        severity="warn",
        title=title,
        evidence=f"{title}, {times}",
        explanation=f"measured without a workload, compared with the median of earlier probes; {rerun}",
        simulated=simulated,
        effect=members[0].effect,
        metric=members[0].name,
        members=members,
    )
