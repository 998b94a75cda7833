"""What a finished training run is expected to cost on spot, from the measured cost of a restart and the declared rate of interruptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from plumbline.declarations import AnyWorkload, Provider, TrainingWorkload
from plumbline.declarations.economics import Economics, SpotRate
from plumbline.prices.spot import Run, SpotCost, spot_cost
from plumbline.reports.outlook_case import RATES, Case, Missing, grouped
from plumbline.scorecards import TrialNumbers


@dataclass(frozen=True)
class SpotOutlook:
    """A finished run on spot against on demand. `reason` says why there is none, and is None exactly where `cost` is set.

    `run_basis`: what one run is. `restart_basis`: how the measured penalty is taken. `per_hour`: interruptions of the whole run an hour.
    """

    provider: str
    workload: str
    run: Run | None = None
    run_basis: str = ""
    restart_basis: str = ""
    on_demand_per_hour: float | None = None
    spot_per_hour: float | None = None
    per_hour: float | None = None
    rate: SpotRate | None = None
    cost: SpotCost | None = None
    prices: tuple[str, str] = ("", "")
    reason: str | None = None
    unknown: tuple[Missing, ...] = ()
    trials: tuple[str, ...] = ()


def spot_outlook(
    provider: Provider,
    workload: AnyWorkload,
    trials: Sequence[TrialNumbers],
    economics: Economics,
    on: date,
    work_s: float | None = None,
) -> SpotOutlook:
    """What a run costs both ways at the prices that hold on the day `on`. `work_s`: seconds of work of the run; left out, as declared
    (`run`), else one pass over the workload's data."""
    case = Case(provider, workload, trials, economics, on)

    def without(reason: str) -> SpotOutlook:
        return SpotOutlook(provider.name, workload.name, reason=reason)

    if not isinstance(workload, TrainingWorkload):
        return without(
            f"{workload.name} is inference: a service has no run that is finished, and what an interruption costs it is requests"
        )
    on_demand, spot = case.price("on_demand"), case.price("spot")
    for priced in (on_demand, spot):
        if isinstance(priced, str):
            return without(priced)
    work = _work(case, workload, work_s)
    if isinstance(work, str):
        return without(work)
    run = _run(case, workload, work[0])
    if isinstance(run, str):
        return without(run)
    rate = economics.interruptions(provider.name)
    if rate is None:
        return without(
            f"how often {provider.name} takes a spot instance away is not known; declare it in economics.yaml, such as "
            f"spot: [{{provider: {provider.name}, interruptions: 0.05/h, since: …, source: …}}]"
        )
    assert not isinstance(on_demand, str) and not isinstance(spot, str)
    per_hour = rate.interruptions * 3600.0 * workload.nodes
    expected = (on_demand.hourly.expected, spot.hourly.expected)
    cost = spot_cost(run[0], *expected, per_hour)
    if not math.isfinite(cost.expected.held_s):
        return without(f"at {grouped(per_hour)} interruptions an hour a run practically never ends; {cost.why}")
    return SpotOutlook(
        provider.name,
        workload.name,
        run=run[0],
        run_basis=work[1],
        restart_basis=run[1],
        on_demand_per_hour=expected[0],
        spot_per_hour=expected[1],
        per_hour=per_hour,
        rate=rate,
        cost=cost,
        prices=(on_demand.basis, spot.basis),
        unknown=tuple(m for m in case.unknown if m.what != "price"),  # the middle of the range is what counts here
        trials=case.measured_in("restart_penalty", "value", "recovery"),
    )


def _work(case: Case, workload: TrainingWorkload, work_s: float | None) -> tuple[float, str] | str:
    """Seconds of work that one run is, and in words what that rests on; or why it is not known."""
    if work_s is not None:
        return work_s, f"{work_s / 3600:,.4g} h of work, as asked"
    declared = case.economics.said("run", case.provider.name, workload.name)
    if declared is not None and declared.value.time is not None:
        return declared.value.time, f"{declared.value.time / 3600:,.4g} h of work ({declared.source})"
    if declared is not None:
        what = "trained_tokens" if declared.value.trained_tokens is not None else "trained_samples"
        amount, source = getattr(declared.value, what), declared.source
    elif workload.data.source == "images":
        what, amount, source = "trained_samples", workload.data.images, "one pass over the declared data"
    else:
        what, amount, source = "trained_tokens", workload.data.tokens, "one pass over the declared data"
    rate = case.measured(*RATES[what])
    if rate is None or rate.expected <= 0:
        return f"how long a run of {amount:,} {what.replace('_', ' ')} takes is not known: {RATES[what][0]} was not measured in any usable trial"
    seconds = amount / rate.expected
    return seconds, f"{amount:,} {what.replace('_', ' ')} at {grouped(rate.expected)}/s: {seconds / 3600:,.4g} h of work ({source})"


def _run(case: Case, workload: TrainingWorkload, work_s: float) -> tuple[Run, str] | str:
    """The run with its measured restarts and checkpoints, and in words how the penalty is taken; or why it is not known."""
    penalty = case.measured("restart_penalty", "value", "recovery")
    if penalty is None:
        return (
            f"what an interruption costs is not known: restart_penalty of {workload.name} on {case.provider.name} was not measured; "
            "a workload that declares a fault measures it"
        )
    new_node = case.measured("image_pull_time", "value", "cold_start") if workload.pod_deletions == 0 else None
    pulling = "" if new_node is None else f" + {new_node.expected:.3g} s to pull the image on a new node"
    started = penalty.expected + (new_node.expected if new_node is not None else 0.0)
    again = case.measured("restart_recompute_time", "value", "recovery")
    step = case.measured("step_time", "median")
    if again is None or step is None:
        basis = (
            f"restart_penalty {penalty.expected:.4g} s with the work done again in it{pulling}: where the trial's fault hit, not on average"
        )
        return Run(work_s, started), basis
    held_up = case.measured("checkpoint_blocking_time", "median")
    if held_up is None:
        case.unknown.append(
            Missing(
                "checkpoint_blocking_time",
                "how long a checkpoint holds up the work was not measured: the cost is as if it did not",
                "a workload whose steady steps hold a checkpoint measures it",
            )
        )
    every_s = workload.checkpoint.every * step.expected
    basis = (
        f"restart_penalty {penalty.expected:.4g} s less {again.expected:.4g} s of work done again{pulling}; a checkpoint every "
        f"{workload.checkpoint.every} steps, {every_s:.4g} s"
    )
    run = Run(work_s, max(0.0, started - again.expected), every_s, 0.0 if held_up is None else held_up.expected)
    return run, basis
