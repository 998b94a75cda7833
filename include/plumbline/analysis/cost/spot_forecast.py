"""Cost forecast of a training run on spot instances, with the interruption rate at which spot stops being cheaper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from plumbline.analysis.cost.forecast import RATES, ForecastInputs, UnknownInput
from plumbline.analysis.cost.interruptions import Expected, InterruptedRun, LossRate, expected_time, loss_rate, measured_run
from plumbline.analysis.cost.unit_costs import HOUR_S
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, Provider, TrainingJob
from plumbline.declarations.economics import Economics

ASKED = "asked"
"""The source of a run's work that the caller gives."""
_HIGHEST = 1.0
"""Interruptions a second: no run makes progress at such a rate; where the search for the break-even ends."""


@dataclass(frozen=True)
class SpotBreakEven:
    """Which of the two is cheaper and why, at prices in USD an hour. `per_hour`: interruptions an hour at which both cost the same, of
    `from_rate`."""

    follows: Literal["spot_is_free", "spot_costs_as_much", "no_paid_time", "spot_at_any_rate", "from_rate"]
    on_demand_per_hour: float
    spot_per_hour: float
    per_hour: float | None = None


@dataclass(frozen=True)
class NeverFinishes:
    """A run that is interrupted `per_hour` times an hour practically never finishes; `why`: which of the two is cheaper at lower rates."""

    per_hour: float
    why: SpotBreakEven


@dataclass(frozen=True)
class RunWork:
    """What one run is: seconds of work, who says so, and the amount at a measured rate a second where it is declared as one."""

    work_s: float
    source: str
    amount: float | None = None
    what: str = ""
    rate: float = 0.0


@dataclass(frozen=True)
class SpotCost:
    """A finished run on spot against on demand, USD. `break_even`: interruptions an hour from which on spot is not cheaper; None: see `why`."""

    on_demand: float
    spot: float
    expected: Expected
    break_even: float | None
    why: SpotBreakEven

    @property
    def saving(self) -> float:
        """The share of the cost on demand that spot is expected to save; negative if it costs more."""
        return 1 - self.spot / self.on_demand if self.on_demand else 0.0


def spot_cost(run: InterruptedRun, on_demand_per_hour: float, spot_per_hour: float, per_hour: float, failing: float = 0.0) -> SpotCost:
    """The expected cost of a finished run on demand and on spot. Prices in USD an hour of all its instances; `per_hour`: interruptions of the whole
    run on spot an hour (each instance's rate times their number: one that is taken away or fails stops all); `failing`: those of them that also
    come on demand."""
    quiet, expected = expected_time(run, failing / HOUR_S), expected_time(run, per_hour / HOUR_S)
    on_demand = on_demand_per_hour * quiet.held_s / HOUR_S
    spot = spot_per_hour * expected.held_s / HOUR_S if spot_per_hour else 0.0
    even = break_even_rate(run, on_demand_per_hour, spot_per_hour, failing)
    return SpotCost(on_demand, spot, expected, even.per_hour, even)


def break_even_rate(run: InterruptedRun, on_demand_per_hour: float, spot_per_hour: float, failing: float = 0.0) -> SpotBreakEven:
    """Interruptions an hour at which both cost the same, or why there is no such rate."""
    prices = (on_demand_per_hour, spot_per_hour)
    if spot_per_hour <= 0:
        return SpotBreakEven("spot_is_free", *prices)
    if spot_per_hour >= on_demand_per_hour:
        return SpotBreakEven("spot_costs_as_much", *prices)
    if run.every_s is None and run.restart_s == 0:
        return SpotBreakEven("no_paid_time", *prices)
    longest = expected_time(run, failing / HOUR_S).held_s * on_demand_per_hour / spot_per_hour
    low, high = 0.0, _HIGHEST
    for _ in range(200):  # more than the bits of a float: it ends where no float lies between
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if expected_time(run, middle).held_s < longest else (low, middle)
    if high == _HIGHEST:
        return SpotBreakEven("spot_at_any_rate", *prices)
    return SpotBreakEven("from_rate", *prices, high * HOUR_S)


@dataclass(frozen=True)
class SpotForecast:
    """A finished run on spot against on demand. `reason` says why there is none, and is None exactly where `cost` is set.

    `restart_basis`: how the measured penalty is taken. `per_hour`: interruptions of the whole run an hour.
    """

    provider: str
    workload: str
    run: InterruptedRun | None = None
    work: RunWork | None = None
    restart_basis: str = ""
    on_demand_per_hour: float | None = None
    spot_per_hour: float | None = None
    per_hour: float | None = None
    rate: LossRate | None = None
    cost: SpotCost | None = None
    prices: tuple[str, str] = ("", "")
    reason: str | NeverFinishes | None = None
    unknown: tuple[UnknownInput, ...] = ()
    trials: tuple[str, ...] = ()


def spot_forecast(
    provider: Provider,
    workload: AnyWorkload,
    trials: Sequence[TrialSample],
    economics: Economics,
    on: date,
    work_s: float | None = None,
) -> SpotForecast:
    """The expected cost of a run on demand and on spot at the prices of the day `on`. `work_s`: seconds of work of the run; left out, as declared
    (`run`), else one pass over the workload's data."""
    case = ForecastInputs(provider, workload, trials, economics, on)

    def without(reason: str | NeverFinishes) -> SpotForecast:
        return SpotForecast(provider.name, workload.name, reason=reason)

    if (job := workload.job) is None:
        return without(f"{workload.name} is inference: a service has no finished run, and interruptions cost it requests")
    on_demand, spot = case.price("on_demand"), case.price("spot")
    for priced in (on_demand, spot):
        if isinstance(priced, str):
            return without(priced)
    work = _work(case, job, work_s)
    if isinstance(work, str):
        return without(work)
    run = _run(case, job, work.work_s)
    if isinstance(run, str):
        return without(run)
    rate = loss_rate(economics, provider.name, workload, "spot")
    if rate is None or economics.interruptions(provider.name) is None:
        return without(
            f"the interruption rate of {provider.name}'s spot instances is not declared; declare it in economics.yaml, such as "
            f"spot: [{{provider: {provider.name}, interruptions: 0.05/h, since: …, source: …}}]"
        )
    assert not isinstance(on_demand, str) and not isinstance(spot, str)
    expected = (on_demand.hourly.expected, spot.hourly.expected)
    failing = loss_rate(economics, provider.name, workload, "on_demand")
    cost = spot_cost(run[0], *expected, rate.per_hour, failing.per_hour if failing is not None else 0.0)
    if not math.isfinite(cost.expected.held_s):
        return without(NeverFinishes(rate.per_hour, cost.why))
    return SpotForecast(
        provider.name,
        workload.name,
        run=run[0],
        work=work,
        restart_basis=run[1],
        on_demand_per_hour=expected[0],
        spot_per_hour=expected[1],
        per_hour=rate.per_hour,
        rate=rate,
        cost=cost,
        prices=(on_demand.basis, spot.basis),
        unknown=tuple(m for m in case.unknown if m.what != "price"),  # the middle of the range is what counts here
        trials=case.measured_in("restart_penalty", "value", "recovery"),
    )


def _work(case: ForecastInputs, workload: TrainingJob, work_s: float | None) -> RunWork | str:
    """What one run is; or why it is not known."""
    if work_s is not None:
        return RunWork(work_s, ASKED)
    declared = case.economics.assumed("run", case.provider.name, workload.name)
    if declared is not None and declared.value.time is not None:
        return RunWork(declared.value.time, declared.source)
    if declared is not None:
        what = "trained_tokens" if declared.value.trained_tokens is not None else "trained_samples"
        amount, source = getattr(declared.value, what), declared.source
    elif workload.epoch_size is None:
        return f"the length of a run of {workload.name} is not declared; declare it in economics.yaml, such as run: [{{workload: {workload.name}, time: 40h, source: …}}]"
    else:
        what, amount, source = f"trained_{workload.work_per_step[0]}", workload.epoch_size, "one pass over the declared data"
    # The mean holds the slow steps, which are held too; checkpoints and restarts come on top.
    rate = case.measured(RATES[what][0], "mean") or case.measured(*RATES[what])
    if rate is None or rate.expected <= 0:
        return f"the time of a run of {amount:,} {what.replace('_', ' ')} is unknown: no usable trial measured {RATES[what][0]}"
    return RunWork(amount / rate.expected, source, amount, what, rate.expected)


def _run(case: ForecastInputs, workload: TrainingJob, work_s: float) -> tuple[InterruptedRun, str] | str:
    """The run with its measured restarts and checkpoints, and in words how the penalty is taken; or why it is not known."""
    found = measured_run(case.expected, workload, work_s)
    if found is None:
        return (
            f"the cost of an interruption is unknown: restart_penalty of {workload.name} on {case.provider.name} was not measured; "
            "a workload that declares a fault measures it"
        )
    if found[0].every_s is not None and case.expected("checkpoint_blocking_time", "median", "steady") is None:
        case.unknown.append(
            UnknownInput(
                "checkpoint_blocking_time",
                "the time that a checkpoint blocks the work was not measured: the cost assumes none",
                "a workload whose steady steps hold a checkpoint measures it",
            )
        )
    return found
