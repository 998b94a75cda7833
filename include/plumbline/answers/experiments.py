"""The next best experiments of a decision, at today's prices."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.analysis.cost.budget import budget_use, expected_held_s
from plumbline.analysis.decisions.current_results import Place, TeamDecision
from plumbline.analysis.decisions.experiments import Experiment, TrialCost, rank_experiments
from plumbline.declarations import Declarations, series_key
from plumbline.launch.monthly_estimate import estimate_trial_s
from plumbline.launch.plan import MAX_REPEATS, declared_slots


def next_experiments(declared: Declarations, decided: TeamDecision) -> tuple[Experiment, ...]:
    """The most gain per USD first; of series that a run would continue."""
    return rank_experiments(decided, dict(_costs(declared, decided)))


def _costs(declared: Declarations, decided: TeamDecision) -> Iterator[tuple[Place, TrialCost]]:
    """Costs as a budget counts them: the time that current trials held the provider, at its price of the day."""
    current = decided.current
    enabled = {p.name: p for p in declared.enabled_providers()}
    for name, workload in current.campaigns:
        if workload not in decided.preference.workloads:
            continue
        spec = declared.workloads.get(workload)
        if name not in enabled or spec is None or spec not in declared.workloads_for(enabled[name]):
            continue
        # Another version, engine or instance starts a series of its own, which does not compare with the others' results.
        if series_key(spec, enabled[name]) != current.series.get((name, workload)):
            continue
        durations_s = [t.held_s for t in current.trials if t.usable and (t.provider, t.workload) == (name, workload) and t.held_s]
        each_s = expected_held_s(durations_s, spec.nodes * estimate_trial_s(spec, enabled[name]))
        use = budget_use(current.providers[name], each_s, current.day, spec.gpus)
        slots = len(declared_slots(enabled[name], spec))
        yield (name, workload), TrialCost(slots, use.usd, use.unpriced, MAX_REPEATS)
