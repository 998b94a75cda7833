"""A growing context: one prompt length after the other, the server idle in between, and the cost of each length.

All lengths are in the document as curves. The phase's rows are those of the longest length, except error_rate, which counts the requests of
all, and the growth over the lengths:

    prefill_growth_exponent, first_token_growth_exponent   least-squares slope over the logarithms of lengths and medians: a doubled prompt
                                 takes 2^exponent times as long. Products with weights grow with exponent 1, attention with 2; constant
                                 costs pull an exponent down
    inter_token_latency_growth   median gap after the longest prompts over that after the shortest
    memory_growth_per_sequence   the server's peak memory at a length less its idle memory, per request in flight. memory_per_sequence is
                                 computed: keys and values. A server that reserves those when it starts, as the project's own model and
                                 vLLM do, grows by its working memory alone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.declarations.workloads.load import ContextPhaseSpec
from plumbline.harness.inference.analysis import roofline, validity
from plumbline.harness.inference.analysis.metrics import ServerCounters, metrics_of, round_trip_rows, stages_of
from plumbline.harness.inference.phases.load_phase import Driver, require_running
from plumbline.harness.inference.server.under_test import format_outcome
from plumbline.harness.measurement import TrialJudgement, degraded
from plumbline.loadclient import round_trip
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog, Values
from plumbline.results import Curve, MetricRow, Point, metric_row, share_row

CURVES = (
    ("time_to_first_token", "p50"),
    ("prefill_time", "mean"),
    ("prefill_flops", "value"),
    ("prefill_flops_utilization", "value"),
    ("time_per_output_token", "p50"),
    ("inter_token_latency", "p50"),
    ("model_bandwidth_utilization", "value"),
    ("memory_per_sequence", "mean"),
    ("memory_growth_per_sequence", "max"),
    ("error_rate", "value"),
)


@dataclass(frozen=True)
class LengthMeasurement:
    """One length of prompts. `gained`: the server's counters over its load."""

    log: RequestLog
    gained: ServerCounters | None
    rows: list[MetricRow]

    @property
    def tokens(self) -> int:
        return int(self.log.load.input_tokens[0])


def measure_context(driver: Driver, spec: ContextPhaseSpec, loads: Sequence[tuple[PhaseLoad, tuple[Prompt, ...]]]) -> None:
    """Measure one length after the other; `loads` has each one's load and prompts.

    A length without any answer ends the phase and degrades the trial; longer ones are skipped. Earlier lengths are kept, also when
    TrialFailed("server_error") is raised because the server has ended."""
    record, served, measurements = driver.record, driver.served, list[LengthMeasurement]()
    require_running(served, f"before {spec.name}")
    gpu = record.workload.needs.accelerator != "cpu"
    trips = [round_trip.measure_round_trip(served.target())]
    end_s = record.done_s + len(loads) * spec.each
    record.event("context_started")
    try:
        with served.beside(spec.name) as sampler:
            with served.peak_memory(gpu=gpu) as idle:
                sampler.sample()
            for load, prompts in loads:
                measurements.append(_length(driver, load, prompts, gpu, idle.bytes, sampler.sample))
                if not measurements[-1].log.finished:
                    break
        record.result.telemetry += sampler.telemetry()
    finally:
        record.result.curves += context_curves(measurements)
    record.event("context_ended")
    record.done_s = end_s
    trips.append(round_trip.measure_round_trip(served.target()))
    last, logs = measurements[-1], [length.log for length in measurements]
    record.result.metrics.append(context_error_row(logs))
    if len(measurements) == len(loads):
        rows = [*(r for r in last.rows if r.metric != "error_rate"), *growth_rows(logs)]
        record.result.metrics += [*rows, *round_trip_rows(spec.name, trips), *served.rows(last.log)]
        record.result.stages += stages_of(last.log, last.gained)
    if not last.log.finished:
        record.result.judgements.append(_cut_short(last, spec))


def _length(
    driver: Driver, load: PhaseLoad, prompts: Sequence[Prompt], gpu: bool, idle: int | None, sample: Callable[[], None]
) -> LengthMeasurement:
    record, served = driver.record, driver.served
    before = served.view()
    with served.peak_memory(gpu=gpu) as peak, record.watch.phase(load.name):
        log = driver.drive(load, prompts, sample=sample, note=f"{int(load.input_tokens[0]):,} tokens in: ")
    record.logs.append(log)
    record.done_s += load.duration_s
    require_running(served, format_outcome(log))
    after = served.view()
    gained = after - before if after and before else None
    if (contradicted := validity.cache_state_contradicted(record.workload, log, gained)) is not None:
        record.result.judgements.append(contradicted)
    grown = None if peak.bytes is None or idle is None else max(peak.bytes - idle, 0) / load.chains
    rows = [*metrics_of(log, record.workload.slo, gained), *roofline.roofline_rows(record.workload, log, record.probed)]
    return LengthMeasurement(log, gained, [*rows, metric_row("memory_growth_per_sequence", grown, load.chains, phase=load.name)])


def context_curves(lengths: Sequence[LengthMeasurement]) -> list[Curve]:
    """Each of CURVES that any length has a value of, over all lengths."""
    curves = []
    for metric, statistic in CURVES:
        measured = [(each.tokens, row) for each in lengths if (row := _row(each, metric, statistic)) is not None]
        if any(row.value is not None for _, row in measured):
            points = tuple(Point(at=at, value=r.value, n=r.n, ci_low=r.ci_low, ci_high=r.ci_high) for at, r in measured)
            first = measured[0][1]
            curves.append(
                Curve(phase=first.phase, along="input_tokens", metric=metric, statistic=statistic, unit=first.unit, points=points)
            )
    return curves


def context_error_row(logs: Sequence[RequestLog]) -> MetricRow:
    """The share of failed requests of all lengths."""
    return share_row("error_rate", sum(log.n - log.finished for log in logs), sum(log.n for log in logs), phase=logs[0].load.name)


def growth_rows(logs: Sequence[RequestLog]) -> list[MetricRow]:
    """Growth from the shortest to the longest length; absent where a length has no value or half of its requests failed, since the rest would
    look fast."""
    phase, n = logs[0].load.name, sum(log.finished for log in logs)
    tokens = np.array([log.load.input_tokens[0] for log in logs], np.float64)
    prefill = np.array([_median(np.where(log.ok, log.server_s[:, log.stages.index("prefill")], np.inf)[log.due]) for log in logs])
    first = np.array([_median(log.latencies("scheduled", "first_token")) for log in logs])
    shortest, longest = (_median(log.gaps()) for log in (logs[0], logs[-1]))
    return [
        metric_row("prefill_growth_exponent", growth_exponent(tokens, prefill), n, phase=phase),
        metric_row("first_token_growth_exponent", growth_exponent(tokens, first), n, phase=phase),
        metric_row("inter_token_latency_growth", longest / shortest if shortest > 0 else None, n, phase=phase),
    ]


def growth_exponent(lengths: Values, seconds: Values) -> float | None:
    """The power of `lengths` [k] with which `seconds` [k] grow, by least squares on logarithms; None unless all are above 0 and finite."""
    if not ((seconds > 0) & np.isfinite(seconds)).all():
        return None
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def _median(values: Values) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def _row(length: LengthMeasurement, metric: str, statistic: str) -> MetricRow | None:
    return next((r for r in length.rows if (r.metric, r.statistic) == (metric, statistic)), None)


def _cut_short(last: LengthMeasurement, spec: ContextPhaseSpec) -> TrialJudgement:
    longer = [tokens for tokens in spec.input_tokens if tokens > last.tokens]
    skipped = f"; skipped: {', '.join(f'{tokens:,}' for tokens in longer)} tokens" if longer else ""
    return degraded("context_cut_short", f"prompts of {last.tokens:,} tokens: {format_outcome(last.log)}{skipped}")
