"""Served models: requests of a load client, answered within a service-level objective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from plumbline.declarations import Declarations, InferenceWorkload, Provider
from plumbline.declarations.references import WorkloadShape
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.engines import PATH_MEASURED, engine
from plumbline.declarations.workloads.load import SearchPhaseSpec, max_phase_seconds
from plumbline.declarations.workloads.models import Encoder
from plumbline.declarations.workloads.workload import Primary
from plumbline.kinds.arithmetic.allowance import Allowance
from plumbline.kinds.arithmetic.few_requests import unanswered
from plumbline.kinds.arithmetic.scale_out import ScaleOut
from plumbline.kinds.base import Simulated, WorkloadKind, register
from plumbline.kinds.simulation import serving
from plumbline.kinds.simulation.draw import Hardware, TrialDraw
from plumbline.results import MetricRow, Reason
from plumbline.results.launch_record import SCALED, STEP_DOWN, STEP_UP

_PATH_S = 12.0
"""Of a trial's server without its model, which has nothing to load, and the load on it."""
_CROSS_CHECK_S = 10.0
"""Of a trial's check by tritonclient, at most."""


@register
class Inference(WorkloadKind[InferenceWorkload]):
    declaration = InferenceWorkload
    wire_kind = "inference"
    verb = "serves"
    plural = "inference workloads"
    workload_acts = False
    measured_by = "plumbline.harness.inference.trial"
    names_model = True

    def primary(self, workload: InferenceWorkload) -> Primary:
        """How much load it holds within its SLO. Without a search for that load, the wait for the first token (of an encoder: for the answer) at
        the load that is declared."""
        if any(phase.name == "sweep" for phase in workload.phases):
            return Primary.model_validate("highest_sustained_rate")
        if isinstance(workload.model, Encoder):
            return Primary.model_validate("p95 request_scheduled_latency in steady")
        return Primary.model_validate("p95 time_to_first_token in steady")

    def required(self, workload: InferenceWorkload) -> tuple[str, ...]:
        """A hosted model was ready before anybody looked."""
        return (
            f"cold_start.{'first_inference_latency' if workload.served_elsewhere else 'time_to_ready'}.value",
            "steady.time_to_first_token.p50",
            "steady.request_scheduled_latency.p50",
            "steady.request_throughput.value",
            "steady.output_token_throughput.value",
            "steady.goodput.value",
            "steady.error_rate.value",
        )

    def trial_s(self, workload: InferenceWorkload, provider: Provider, allow: Allowance) -> float:
        backend = workload.server.backend
        server = 0.0 if workload.served_elsewhere else allow.server_s if engine(backend).starts_slowly else allow.plain_server_s
        starts = 2 if workload.quality is not None else 1  # one more for the reference
        capacity = any(isinstance(phase, SearchPhaseSpec) for phase in workload.phases)
        checks = _PATH_S if capacity and backend in PATH_MEASURED and workload.server.triton_backend is None else 0.0
        checks += _CROSS_CHECK_S if engine(backend).triton_backend else 0.0
        return server * starts + checks + sum(max_phase_seconds(phase) + allow.drain_s for phase in workload.phases)

    def simulate(self, workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> Simulated:
        rows, stages = serving.rows(workload, has, draw), serving.stages(workload, has, draw)
        spec = workload.scale_out
        scaled = None if spec is None else serving.scale_out(spec, workload, has, draw)
        return Simulated(
            rows,
            serving.took_s(workload, rows),
            stages,
            curves=scaled.curves if scaled else (),
            moments=tuple(_scaling(workload, rows)),
            reasons=tuple(_reasons(workload, rows, scaled)),
        )

    def simulated_replicas(self, workload: InferenceWorkload, has: Hardware, draw: TrialDraw) -> list[tuple[float, int]] | None:
        spec = workload.scale_out
        return None if spec is None else serving.replica_changes(spec, workload, has, draw)

    def gaps(self, workload: InferenceWorkload, declared: Declarations) -> Iterator[str]:
        if workload.quality is not None and not isinstance(workload.model, Checkpoint):
            yield f"{workload.name} declares quality of random weights, which no trial checks: remove it with a new version, or serve a checkpoint"

    def differences(self, workload: InferenceWorkload, published: WorkloadShape) -> Iterator[str]:
        if published.load is not None:
            yield f"{published.load}, here the load that the workload declares"


def _scaling(workload: InferenceWorkload, rows: Sequence[MetricRow]) -> Iterator[tuple[str, float]]:
    """When the load of a scale-out phase changes."""
    if (spec := workload.scale_out) is None:
        return
    before = takewhile(lambda phase: phase != spec, workload.phases)
    at = serving.ready_s(rows) + sum(map(max_phase_seconds, before))
    yield STEP_UP, at + spec.hold
    yield STEP_DOWN, at + spec.hold * len(spec.rates)
    yield SCALED, at + max_phase_seconds(spec)


def _reasons(workload: InferenceWorkload, rows: Sequence[MetricRow], scaled: ScaleOut | None) -> Iterator[Reason]:
    """Those of the harness's judgements that need no machine."""
    if (few := unanswered(workload.acceptance, rows)) is not None:
        yield few
    if any(r.metric == "highest_sustained_rate" and r.value is None for r in rows):
        yield Reason(code="search_open", detail="no highest rate in sweep: it lies outside the declared range")
    if scaled is not None and scaled.problem is not None:
        yield scaled.problem
