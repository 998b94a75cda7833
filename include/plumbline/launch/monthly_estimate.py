"""Trials, node hours and cost of a provider's monthly rerun: by the times that trials took, else estimated from declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from plumbline.analysis.cost.budget import BudgetUse, budget_use, expected_held_s, sum_uses
from plumbline.analysis.cost.unit_costs import HOUR_S, sustained
from plumbline.analysis.prices.book import quote
from plumbline.declarations import (
    AnyWorkload,
    Declarations,
    Provider,
)
from plumbline.declarations.workloads.load import LoadPhaseSpec
from plumbline.kinds import KINDS, kind_of
from plumbline.kinds.arithmetic.allowance import allowance_of
from plumbline.launch.plan import declared_slots

_SIMULATED_LIMIT_S = 3600.0
"""Counted for a simulated trial without times; such trials have no limit."""


@dataclass(frozen=True)
class WorkloadEstimate:
    """A workload of a provider's month. `trial_s`: seconds that one trial holds each of its `nodes`: of `measured` trials, 0 if estimated."""

    workload: str
    kind: str
    version: int
    slots: tuple[str, ...]
    per_slot: int
    nodes: int
    trial_s: float
    measured: int
    use: BudgetUse

    @property
    def trials(self) -> int:
        return len(self.slots) * self.per_slot

    @property
    def node_hours(self) -> float:
        return self.trials * self.nodes * self.trial_s / HOUR_S


@dataclass(frozen=True)
class MonthlyEstimate:
    """A provider's monthly rerun. `price`: the basis of what is paid, or why that is not known."""

    provider: str
    enabled: bool
    scheduled: tuple[WorkloadEstimate, ...]
    price: str

    @property
    def trials(self) -> int:
        return sum(each.trials for each in self.scheduled)

    @property
    def node_hours(self) -> float:
        return sum(each.node_hours for each in self.scheduled)

    @property
    def use(self) -> BudgetUse:
        return sum_uses(each.use for each in self.scheduled)

    @property
    def times(self) -> str:
        """Where the trials' times are from, in words."""
        measured = sum(each.measured > 0 for each in self.scheduled)
        if not 0 < measured < len(self.scheduled):
            return "measured" if measured else "estimated"
        return f"measured of {measured} of {len(self.scheduled)} workloads"


def estimate_month(
    declared: Declarations, provider: Provider, on: date, durations_s: Mapping[str, Sequence[float]] | None = None
) -> MonthlyEstimate:
    """The provider's monthly rerun at the on-demand price of a day; of a disabled provider, as if it were enabled.

    `durations_s`: by workload, seconds over all nodes of the last trials.
    """
    lasted = durations_s or {}
    scheduled = tuple(
        estimate_workload(provider, w, on, lasted.get(w.name, ())) for w in declared.monthly_workloads(provider, month=on.month)
    )
    quoted = quote(provider, on)
    return MonthlyEstimate(provider.name, provider.enabled, scheduled, str(quoted.basis or quoted.reason))


def estimate_workload(provider: Provider, workload: AnyWorkload, on: date, durations_s: Sequence[float] = ()) -> WorkloadEstimate:
    """One workload of the month; see `estimate_month`."""
    nodes = workload.nodes
    held_s = expected_held_s(durations_s, min(nodes * estimate_trial_s(workload, provider), limit_s(provider, nodes)))
    slots, repeats = declared_slots(provider, workload), workload.repeats.per_slot
    use = budget_use(provider, held_s, on, workload.gpus).times(len(slots) * repeats)
    return WorkloadEstimate(workload.name, workload.kind, workload.version, slots, repeats, nodes, held_s / nodes, len(durations_s), use)


def limit_s(provider: Provider, nodes: int) -> float:
    """The most seconds, over all nodes, that a trial can hold the provider."""
    return nodes * (_SIMULATED_LIMIT_S if provider.simulated else provider.launcher.trial_limit_s)


def estimate_trial_s(workload: AnyWorkload, provider: Provider) -> float:
    """Seconds that one trial holds each of its nodes, under the assumptions of `kinds.arithmetic.allowance`; its time limit if nothing says how
    long it measures."""
    allow = allowance_of(provider)
    own = kind_of(workload).trial_s(workload, provider, allow)
    return limit_s(provider, 1) if own is None else allow.place_s + allow.probes_s + own + allow.close_s


def measurement_gaps(declared: Declarations) -> tuple[str, ...]:
    """Gaps of the monthly rerun, one sentence each: enabled providers without monthly workloads, workloads skipped for an engine or scratch
    disk, trials longer than their time limit, workloads of teams that no provider runs, missing sweeps, qualities of random weights."""
    enabled = declared.enabled_providers()
    gaps = [
        f"{p.name} is enabled but has no monthly workload: {_why_unmeasured(declared, p)}"
        for p in enabled
        if not declared.monthly_workloads(p)
    ]
    gaps += [f"{p.name} does not measure {w.name} monthly: {why}" for p in enabled for w, why in declared.left_out(p)]
    gaps += [why for p in enabled for w in declared.monthly_workloads(p) if (why := _beyond_limit(p, w)) is not None]
    measured = {w.name for p in enabled for w in declared.monthly_workloads(p)}
    teams: dict[str, list[str]] = {}
    for name, team in sorted(declared.teams.items()):
        for preference in (*team.preferences("training"), *team.preferences("inference")):
            for workload in preference.workloads:
                if workload not in measured and name not in teams.setdefault(workload, []):
                    teams[workload].append(name)
    for workload, names in sorted(teams.items()):
        fits = [p.name for p in enabled if workload in {w.name for w in declared.workloads_for(p)}]
        why = f"on {', '.join(fits)} it is on demand only" if fits else "it fits no enabled provider"
        gaps.append(f"{_teams_decide(names)} by {workload}, which no enabled provider measures monthly: {why}")
    return (*gaps, *_missing_sweeps(declared), *_gaps_of_kinds(declared))


def _gaps_of_kinds(declared: Declarations) -> Iterator[str]:
    """By kind, then by name of the workload."""
    for kind in KINDS.values():
        for _, workload in sorted(declared.workloads.items()):
            if kind_of(workload) is kind:
                yield from kind.gaps(workload, declared)


def _beyond_limit(provider: Provider, workload: AnyWorkload) -> str | None:
    needed, limit = estimate_trial_s(workload, provider), provider.launcher.trial_limit_s
    if provider.simulated or needed <= limit:
        return None
    return (
        f"{provider.name} stops {workload.name} before its end: launcher.timeout is {limit:.0f}s and a trial takes {needed:.0f}s by estimate; "
        f"expected launcher.timeout above that, or fewer steps"
    )


def _missing_sweeps(declared: Declarations) -> list[str]:
    """Costs without a sweep: inference is costed at the highest rate that meets the SLO, which only a sweep finds."""
    gaps = []
    for name, team in sorted(declared.teams.items()):
        for preference in team.preferences("inference"):
            costs = ", ".join(metric for metric in preference.weights if sustained(metric))
            for workload in (declared.workloads[each] for each in preference.workloads if costs):
                served = workload.serving
                if served is None or any(phase.name == "sweep" for phase in served.phases):
                    continue
                closed = any(isinstance(phase, LoadPhaseSpec) and phase.arrivals.closed is not None for phase in served.phases)
                loop = "runs a closed loop and " if closed else ""
                gaps.append(
                    f"team {name} weighs {costs} by {workload.name}, which {loop}declares no sweep, so no decision is possible; expected a "
                    "phase such as {name: sweep, search: {goodput: 99%, between: [1/s, 64/s]}}, or no cost among the team's weights"
                )
    return gaps


def _why_unmeasured(declared: Declarations, provider: Provider) -> str:
    fitting = [w.name for w in declared.workloads_for(provider)]
    if not fitting:
        return "no declared workload fits"
    return f"all fitting workloads are on demand only; name some under `workloads` in its declaration: {', '.join(fitting)}"


def _teams_decide(teams: Sequence[str]) -> str:
    return f"team{'s' if len(teams) > 1 else ''} {', '.join(teams)} decide{'' if len(teams) > 1 else 's'}"
