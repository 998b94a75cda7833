"""Metric rows of a simulated inference trial: lognormal latencies of a queue before one server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from plumbline.declarations.workloads.checkpoints import Checkpoint, ServedModel
from plumbline.declarations.workloads.inference import InferenceWorkload, Slo
from plumbline.declarations.workloads.load import (
    ContextPhaseSpec,
    FaultPhaseSpec,
    LoadPhaseSpec,
    ScaleOutPhaseSpec,
    Search,
    SearchPhaseSpec,
    max_phase_seconds,
    mean_tokens,
)
from plumbline.kinds.arithmetic.scale_out import ScaleOut, ScaleStep
from plumbline.kinds.simulation.draw import Hardware, TrialDraw, value_of
from plumbline.metrics import Phase
from plumbline.metrics.proportions import QUANTILES, min_observations_for_quantile
from plumbline.results import MetricRow, Stage, metric_row, share_row

_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
_CHECKPOINT_BYTES = 16e9  # eight billion weights of two bytes
_MEMORY_SHARE, _COMPUTE_SHARE = 0.6, 0.4
_STEP_OVERHEAD_S, _CPU_STEP_OVERHEAD_S, _REQUEST_OVERHEAD_S = 0.0015, 0.0008, 0.002
# A decode step serves a batch for little more than the time of one sequence.
_BATCHED = 48
_LOAD_LIMIT, _SUSTAINED = 0.92, 0.8
_SIGMA, _TOKEN_SIGMA = 0.35, 0.2
_CLIENT_S = 0.0002
_READY_S, _CPU_READY_S = 25.0, 2.0
_NORMAL = NormalDist()
_UNCOUNTED = ("sweep", "fault", "recovery")
"""Phases for which the harness has no counters of the server: it was killed, or the phase is a part of another one."""


@dataclass(frozen=True)
class SimulatedServer:
    """The server in this trial, seconds: of a prefill, between two tokens, of a start, of loading the model; `capacity` requests/s of all
    replicas together; tokens of a prompt (`inputs`, as it is sent) and of an answer."""

    prefill_s: float
    token_s: float
    inputs: float
    outputs: int
    capacity: float
    load_s: float
    start_s: float

    @property
    def request_s(self) -> float:
        """A request alone, from its sending to its last token."""
        return self.prefill_s + (self.outputs - 1) * self.token_s


@dataclass(frozen=True)
class LoadPeriod:
    """Load of one phase: requests that were due, over how many seconds; `closed` users wait for their answers."""

    phase: Phase
    requests: int
    seconds: float
    closed: int | None = None


def active_parameters(model: ServedModel) -> float:
    """Weights that a token passes through, in products of the model's precision; of an undeclared checkpoint a typical size."""
    if not isinstance(model, Checkpoint):
        return float(model.parameters)
    known = model.active_parameters or model.parameters
    return float(known or (model.weights_bytes or _CHECKPOINT_BYTES) / _BYTES[model.precision])


def server_of(workload: InferenceWorkload, has: Hardware, draw: TrialDraw, inputs: float | None = None) -> SimulatedServer:
    """The server with this trial's slowness; with prompts of `inputs` tokens instead of the declared ones."""
    replicas = workload.replicas_on(has.count)
    if not has.gpu:  # the cores' rates are those of all together
        has = replace(has, matmul=has.matmul / replicas, memory=has.memory / replicas)
    slow, model, requests = draw.slowness("inference"), workload.model, workload.requests
    sent = inputs or mean_tokens(requests.prompt_lengths)
    prompt = sent + workload.added_tokens
    outputs = max(1, round(mean_tokens(requests.output_tokens)))
    parameters = active_parameters(model)
    weights = parameters * _BYTES[model.precision]
    prefill = (_REQUEST_OVERHEAD_S + 2.0 * parameters * prompt / (has.matmul * _COMPUTE_SHARE)) * slow
    token = ((_STEP_OVERHEAD_S if has.gpu else _CPU_STEP_OVERHEAD_S) + weights / (has.memory * _MEMORY_SHARE)) * slow
    busy = prefill + (outputs - 1) * token / min(_BATCHED, workload.server.sequences)
    load = (0.5 + weights / has.disk) * draw.slowness("start_up")
    return SimulatedServer(
        prefill, token, sent, outputs, replicas / busy, load, load + (_READY_S if has.gpu else _CPU_READY_S) * draw.slowness("start_up")
    )


def rows(workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    """All metric rows but the probes'."""
    server = server_of(workload, has, draw)
    metric_rows = []
    if workload.server.backend != "external":
        metric_rows += [
            draw.row("time_to_ready", server.start_s, 1, phase="cold_start", moved=False),
            draw.row("model_load_time", server.load_s, 1, phase="cold_start", moved=False),
        ]
    metric_rows.append(draw.row("first_inference_latency", 2 * server.request_s, 1, phase="cold_start"))
    if workload.quality is not None and isinstance(workload.model, Checkpoint):
        metric_rows.append(metric_row("output_agreement", (1.0 + workload.quality.agreement) / 2, 64, phase="cold_start"))
    for spec in workload.phases:
        if isinstance(spec, ScaleOutPhaseSpec):
            found = scale_out(spec, workload, has, draw)
            missed, due = (sum(getattr(step, name) for step in found.steps) for name in ("missed", "requests"))
            seconds = max_phase_seconds(spec)
            due += round(spec.rates[0] * spec.down)
            metric_rows += [*_load(LoadPeriod(spec.name, due, seconds), workload, server, draw, good=1 - missed / due), *found.metrics]
            continue
        if isinstance(spec, SearchPhaseSpec):
            metric_rows += _search(spec.search, workload, server, draw)
            continue
        if isinstance(spec, ContextPhaseSpec):
            metric_rows += _context(spec, workload, has, draw)
            continue
        if isinstance(spec, FaultPhaseSpec):
            metric_rows += _fault(spec, server, draw)
        for stretch in load_periods(spec, server):
            metric_rows += _load(
                stretch, workload, server, draw, down=server.start_s if _kills_server(spec) and stretch.phase == "fault" else 0.0
            )
    return metric_rows


def stages(workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> list[Stage]:
    """Where the requests of the steady phase spent their time."""
    server = server_of(workload, has, draw)
    n = next(s.requests for spec in workload.phases for s in load_periods(spec, server) if s.phase == "steady")
    spent = {"dispatch": _CLIENT_S}
    if _reports_times(workload):
        spent |= {"prefill": server.prefill_s, "decode": (server.outputs - 1) * server.token_s}
    return [Stage(phase="steady", stage=name, total_s=seconds * n, n=n) for name, seconds in spent.items()]


def ready_s(metrics: Sequence[MetricRow]) -> float:
    """Seconds until the server was ready; 0 of one that was before."""
    return value_of(metrics, "time_to_ready", "cold_start")


def took_s(workload: InferenceWorkload, metrics: Sequence[MetricRow]) -> float:
    """Seconds of the measurement with these rows."""
    return ready_s(metrics) + sum(max_phase_seconds(phase) for phase in workload.phases)


def load_periods(spec: object, server: SimulatedServer) -> Iterator[LoadPeriod]:
    """The load that a phase puts on the server; none of a search, which sets its own, and of a growing context, which asks one request after
    the other."""
    if isinstance(spec, LoadPhaseSpec | FaultPhaseSpec):
        arrivals, seconds = spec.arrivals, spec.duration
        if arrivals.closed is not None:
            users = arrivals.closed.users
            each = max(server.request_s, users / server.capacity) + arrivals.closed.think
            seconds = min(seconds, arrivals.closed.requests * each / users)
            yield LoadPeriod(spec.name, max(1, int(users * seconds / each)), seconds, users)
            return
        yield LoadPeriod(spec.name, max(1, round(arrivals.expected(seconds))), seconds)
        if isinstance(spec, FaultPhaseSpec):
            after = max(1.0, seconds - spec.at - (spec.lasts or (server.start_s if _kills_server(spec) else 0.0)))
            yield LoadPeriod("recovery", max(1, round(arrivals.expected(seconds) * after / seconds)), after)


def _reports_times(workload: InferenceWorkload) -> bool:
    """Whether the model reports the seconds of its stages: the house's own models do, engines and hosted servers do not."""
    return workload.server.backend == "python"


def _search(search: Search, workload: InferenceWorkload, server: SimulatedServer, draw: TrialDraw) -> Iterator[MetricRow]:
    """Rows of the highest rate that keeps the SLO, and of the load at that rate. Like the harness, gives no rate outside the declared range;
    above it the load is that of the upper end, below it there is none."""
    low, high = search.between
    row = draw.row("highest_sustained_rate", _sustained(search.goodput, workload, server), search.at_most, phase="sweep", moved=False)
    rate = row.value or 0.0
    row = row.model_copy(update={"ci_low": rate, "ci_high": rate * (1 + search.tolerance)})
    yield row if low <= rate < high else metric_row("highest_sustained_rate", None, search.at_most, phase="sweep")
    if rate >= low:
        rate = min(rate, high)
        yield from _load(
            LoadPeriod("sweep", max(10, round(rate * (search.confirm or search.probe))), search.confirm or search.probe),
            workload,
            server,
            draw,
        )


def _sustained(goodput: float, workload: InferenceWorkload, server: SimulatedServer) -> float:
    """The highest rate at which this share of requests meets the SLO, requests/s; 0 where it never does."""

    def holds(taken: float) -> bool:
        return _meets(workload.slo, *_medians(server, taken)) >= goodput

    low, high = 0.0, _SUSTAINED
    if holds(high):
        return high * server.capacity
    for _ in range(40):
        taken = (low + high) / 2
        low, high = (taken, high) if holds(taken) else (low, taken)
    return low * server.capacity


def _medians(server: SimulatedServer, taken: float) -> tuple[float, float, float]:
    """Seconds to the first token, between two tokens and to the last token, where a share `taken` of the server's time is taken."""
    first = server.prefill_s * taken / (1 - taken) + server.prefill_s
    token = server.token_s * (1 + 0.5 * taken)
    return first, token, first + (server.outputs - 1) * token


def _kills_server(spec: object) -> bool:
    return isinstance(spec, FaultPhaseSpec) and spec.inject == "server_kill"


def _load(
    stretch: LoadPeriod, workload: InferenceWorkload, server: SimulatedServer, draw: TrialDraw, down: float = 0.0, good: float | None = None
) -> Iterator[MetricRow]:
    """The rows of one stretch of load, in which the server was away for `down` seconds. `good`: the share within the SLO, where it is known."""
    phase, n = stretch.phase, stretch.requests
    rate = n / stretch.seconds
    taken = min(rate / server.capacity, _LOAD_LIMIT)
    lost = round(n * min(1.0, down / stretch.seconds))
    served = n - lost
    wait = server.prefill_s * taken / (1 - taken)
    first, token, alone = _medians(server, taken)
    factors = {name: draw.own(name, phase, draw.declared.noise_of("inference").run) for name in _LATENCIES}
    first, token, gap = (
        first * factors["time_to_first_token"],
        token * factors["time_per_output_token"],
        token * factors["inter_token_latency"],
    )
    latency = max(alone * factors["request_latency"], first - _CLIENT_S)
    whole = max(alone * factors["request_scheduled_latency"], latency, first) + _CLIENT_S
    total = served * server.outputs
    yield from _percentiles("time_to_first_token", first, _SIGMA, n, lost, phase)
    if server.outputs > 1:
        yield from _percentiles("time_per_output_token", token, _TOKEN_SIGMA, n, lost, phase)
        yield from _percentiles("inter_token_latency", gap, _TOKEN_SIGMA, served * (server.outputs - 1), 0, phase)
    yield from _percentiles("request_latency", latency, _SIGMA, n, lost, phase)
    yield from _percentiles("request_scheduled_latency", whole, _SIGMA, n, lost, phase)
    if served and server.outputs > 1:
        yield metric_row("output_token_throughput_per_user", 1 / token, served, phase=phase, statistic="p50")
    good = served / n * _meets(workload.slo, first, token, whole) if good is None else good
    throughput = min(served / stretch.seconds, server.capacity) if stretch.closed is None else served / stretch.seconds
    yield draw.row("request_throughput", throughput, served, phase=phase, moved=False, scatter=False)
    yield draw.row("output_token_throughput", throughput * server.outputs, total, phase=phase, moved=False, scatter=False)
    yield metric_row("input_token_throughput", throughput * server.inputs, round(served * server.inputs), phase=phase)
    yield draw.row("goodput", throughput * n / max(served, 1) * good, n, phase=phase, moved=False, scatter=False)
    yield _share("goodput_ratio", good, n, phase, draw)
    yield _share("error_rate", lost / n, n, phase, draw)
    if stretch.closed is None:
        yield metric_row("offered_rate", rate, n, phase=phase)
        yield metric_row("achieved_rate_ratio", 1.0, n, phase=phase)
    for statistic, delay in (("p50", 1.0), ("p99", 4.0), ("max", 6.0)):
        yield metric_row("request_dispatch_delay", _CLIENT_S * delay, n, phase=phase, statistic=statistic)
    reported, counted = _reports_times(workload), phase not in _UNCOUNTED and workload.server.backend != "external"
    yield metric_row("queue_time", wait if counted else None, n, phase=phase)
    yield metric_row("compute_time", server.request_s if reported or (counted and server.outputs == 1) else None, n, phase=phase)
    if reported:
        yield metric_row("prefill_time", server.prefill_s, n, phase=phase)
        if server.outputs > 1:
            yield metric_row("decode_time", (server.outputs - 1) * server.token_s, n, phase=phase)
    if workload.retrieval is not None:
        yield draw.row("retrieval_time", 0.3 * server.prefill_s, n, phase=phase, moved=False)


_LATENCIES = ("time_to_first_token", "time_per_output_token", "inter_token_latency", "request_latency", "request_scheduled_latency")


def _percentiles(metric: str, median: float, sigma: float, n: int, lost: int, phase: Phase) -> Iterator[MetricRow]:
    """Percentiles of a lognormal distribution; a lost request counts as infinitely slow."""
    for name, q in QUANTILES.items():
        share = q * n / (n - lost) if n > lost else 1.0
        known = n >= min_observations_for_quantile(q) and share < 1
        value = median * math.exp(sigma * _NORMAL.inv_cdf(share)) if known else None
        half = 1.96 * 1.25 * sigma / math.sqrt(n) if name == "p50" and n > 5 and value is not None else 0.0
        ci = (value * (1 - half), value * (1 + half)) if value is not None and 0 < half < 1 else None
        yield metric_row(metric, value, n, phase=phase, statistic=name, ci=ci)
    if n > lost:
        yield metric_row(metric, median * math.exp(sigma**2 / 2), n - lost, phase=phase, statistic="mean")


def _meets(slo: Slo, first: float, token: float, whole: float) -> float:
    """The share of answered requests within every limit."""
    share = 1.0
    for limit, median, sigma in (
        (slo.time_to_first_token, first, _SIGMA),
        (slo.time_per_output_token, token, _TOKEN_SIGMA),
        (slo.inter_token_latency, token, _TOKEN_SIGMA),
        (slo.request_scheduled_latency, whole, _SIGMA),
    ):
        if limit is not None:
            share = min(share, _NORMAL.cdf(math.log(limit / median) / sigma))
    return share


def _share(metric: str, share: float, n: int, phase: Phase, draw: TrialDraw) -> MetricRow:
    value = draw.row(metric, share, n, phase=phase, moved=False, scatter=False).value
    assert value is not None
    return share_row(metric, min(n, round(value * n)), n, phase=phase)


def _fault(spec: FaultPhaseSpec, server: SimulatedServer, draw: TrialDraw) -> Iterator[MetricRow]:
    away = server.start_s if _kills_server(spec) else (spec.lasts or 0.0)
    if spec.inject == "server_kill":
        yield draw.row("time_to_ready", server.start_s, 1, phase="fault", moved=False)
        yield draw.row("model_load_time", server.load_s, 1, phase="fault", moved=False)
    yield draw.row("time_to_recover", away + server.request_s, 1, phase="fault", moved=False)
    if _kills_server(spec):
        due = round(spec.arrivals.expected(spec.duration))
        yield metric_row("requests_lost", float(round(due * min(1.0, away / spec.duration))), due, phase="fault")


def scale_out(spec: ScaleOutPhaseSpec, workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> ScaleOut:
    """The steps of a server that scales as the provider declares; one that does not misses the SLO at each rate above its capacity."""
    sustained, scaling = _sustained(spec.goodput, workload, server_of(workload, has, draw)), draw.declared.scaling
    delay = None if scaling is None else draw.row("time_to_scale_out", scaling.delay, 1, phase="scale_out").value
    steps: list[ScaleStep] = []
    for rate in spec.rates:
        n, held = round(rate * spec.hold), rate <= sustained
        took = 0.0 if held else delay if delay is not None and delay < spec.hold and steps else None
        missed = n if took is None else round(rate * took)
        steps.append(ScaleStep(rate, n, missed, 0, took, max(0.0, took - 1 / rate) if took else None))
    return ScaleOut(steps, spec)


def replica_changes(spec: ScaleOutPhaseSpec, workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> list[tuple[float, int]]:
    """(seconds after the first step up, replicas that are ready from then on); empty where nothing scales."""
    scaling, found = draw.declared.scaling, scale_out(spec, workload, has, draw)
    if scaling is None or found.problem is not None:
        return []
    sustained = _sustained(spec.goodput, workload, server_of(workload, has, draw))
    grown = [(i * spec.hold + step.took_s, math.ceil(step.rate / sustained)) for i, step in enumerate(found.steps[1:]) if step.took_s]
    return [(-spec.hold, 1), *grown, (len(found.steps[1:]) * spec.hold + scaling.idle, 1)]


def _context(spec: ContextPhaseSpec, workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> Iterator[MetricRow]:
    """The rows of the longest prompts, and how the costs grow with the length."""
    lengths = spec.input_tokens
    short, long = (server_of(workload, has, draw, float(tokens)) for tokens in (lengths[0], lengths[-1]))
    yield from (
        r
        for r in _load(LoadPeriod("context", spec.requests, spec.requests * long.request_s, spec.users), workload, long, draw)
        if r.metric != "error_rate"
    )
    yield _share("error_rate", 0.0, spec.requests * len(lengths), "context", draw)
    exponent = math.log(long.prefill_s / short.prefill_s) / math.log(lengths[-1] / lengths[0])
    measured = exponent if _reports_times(workload) else None
    yield draw.row("prefill_growth_exponent", measured, len(lengths), phase="context", moved=False)
    yield draw.row("first_token_growth_exponent", exponent, len(lengths), phase="context", moved=False)
    if long.outputs > 1:
        yield draw.row("inter_token_latency_growth", 1.1, len(lengths), phase="context", moved=False)
