"""A simulated document has no number that the harness could not have made of the same workload, phase by phase."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.unit.launch.simulated.test_documents import every_workload

from plumbline.declarations import InferenceWorkload, TrainingWorkload, Trial
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.harness import probes
from plumbline.harness.inference import trial
from plumbline.harness.inference.analysis import scale_out
from plumbline.harness.inference.analysis.metrics import ServerCounters, metrics_of
from plumbline.harness.inference.phases import checkpoint_quality, context, fault, search
from plumbline.harness.training.analysis import performance, recovery
from plumbline.harness.training.analysis.records import TrainingRecords
from plumbline.harness.training.container import trial as container_trial
from plumbline.harness.training.worker_protocol import CheckpointSave, RunRecord, Step
from plumbline.launch.simulated.launcher import simulate
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import PIPELINE, STAGES, RequestLog
from plumbline.metrics import METRICS, LoadPhase
from plumbline.results import MetricRow

Rows = set[tuple[str, str, bool]]
"""(metric, statistic, whether it has a value)."""

COUNTED = ServerCounters(200, 0, 0.2, 0.1, 2.0, 0.1, 100, 200, None, None, None)
PROBES = "".join(path.read_text() for path in Path(str(probes.__file__)).parent.glob("*.py"))


def rows_of(rows: Iterable[MetricRow]) -> Rows:
    return {(r.metric, r.statistic, r.value is not None) for r in rows}


def made_in(*modules: ModuleType) -> set[str]:
    """The metrics that the source of these modules names."""
    return {name for module in modules for name in re.findall(r'"(\w+)"', inspect.getsource(module))} & METRICS.keys()


def log_of(workload: InferenceWorkload, phase: LoadPhase, closed: bool, tokens: int) -> RequestLog:
    """200 requests that all went well, as this workload's model reports them."""
    n = 200
    load = PhaseLoad(
        phase, n / 10, np.arange(n) / 10, np.full(n, 8, np.int32), np.full(n, tokens, np.int32), np.full(n, -1, np.int32), closed
    )
    log = RequestLog.of(load, stages=PIPELINE if workload.retrieval else STAGES)
    log.due[:], log.scheduled[:], log.dispatched[:] = True, load.arrivals_s, load.arrivals_s + 0.001
    arrivals = log.scheduled[:, None] + 0.05 + 0.01 * np.arange(tokens)
    log.token_at[:], log.received[:], log.ended[:] = arrivals.ravel(), tokens, arrivals[:, -1]
    if workload.server.backend == "python":  # repositories/python.py: the only wire with SERVER_TIMES
        log.server_s[:] = 0.002
    return log


def inference_rows(workload: InferenceWorkload, phase: str, seen: Iterable[MetricRow]) -> Rows:
    """What the harness makes of a phase. `seen`: the simulated rows, of which only the metrics that a phase adds are looked up by name."""
    tokens = 5 if workload.requests.output_tokens.constant != 1 else 1
    closed = any(p.name == phase and getattr(getattr(p, "arrivals", None), "closed", None) for p in workload.phases)
    counted = COUNTED if phase not in ("sweep", "fault", "recovery") and workload.server.backend != "external" else None
    found: Rows = set()
    if phase not in ("cold_start", "environment"):
        asked: LoadPhase = phase  # type: ignore[assignment]
        found = rows_of(metrics_of(log_of(workload, asked, bool(closed), tokens), workload.slo, counted))
    added = {
        "cold_start": made_in(trial, checkpoint_quality),
        "context": made_in(context),
        "fault": made_in(fault),
        "sweep": made_in(search),
        "scale_out": made_in(scale_out),
        "environment": set(re.findall(r'"(\w+)"', PROBES)),
    }.get(phase, set())
    return found | {(r.metric, r.statistic, r.value is not None) for r in seen if r.metric in added}


def training_rows(workload: TrainingWorkload, seen: Iterable[MetricRow]) -> set[tuple[str, str, str]]:
    """(phase, metric, statistic) of what the harness makes of a training that went well."""

    def step(number: int) -> Step:
        return Step(number, 10 + 0.1 * number, 10.1 + 0.1 * number, {"data_wait": 0.01, "forward": 0.09}, loss=2.0)

    steps, every = workload.steps.total, workload.checkpoint.every
    run = RunRecord(launched_s=9.0, steps=[step(i) for i in range(steps)], matmul_flops=1e12, verified_loads_s=[0.1], compiled_s=[1.0])
    run.saves = [CheckpointSave(at, 10 + 0.1 * at, 0.02, 0.02, 1000, closing=at == steps) for at in (*range(every, steps, every), steps)]
    run.peak_memory = {"used": 1000} | ({"reserved": 1100} if workload.needs.accelerator != "cpu" else {})  # device.peak_memory
    if workload.parallelism.world > 1:
        run.by_rank = dict.fromkeys(range(workload.parallelism.world), run.steps)
    records = TrainingRecords(None)
    records.runs = {"run": run}
    found = {(r.phase, r.metric, r.statistic) for r in performance.performance_rows(workload, records.undisturbed(workload.steps))}
    added = {"recovery": made_in(recovery), "environment": set(re.findall(r'"(\w+)"', PROBES))}
    return found | {(r.phase, r.metric, r.statistic) for r in seen if r.metric in added.get(r.phase, set())}


def invented(trial: Trial) -> set[tuple[object, ...]]:
    """Rows of the simulated document that the harness does not make."""
    document, workload = simulate(trial), trial.workload
    if isinstance(workload, TrainingWorkload):
        return {(r.phase, r.metric, r.statistic) for r in document.metrics} - training_rows(workload, document.metrics)
    if isinstance(workload, ContainerWorkload):
        made = {*workload.task.measures, *made_in(container_trial), *re.findall(r'"(\w+)"', PROBES)}
        return {(r.phase, r.metric) for r in document.metrics if r.metric not in made}
    found: set[tuple[object, ...]] = set()
    for phase in {r.phase for r in document.metrics}:
        seen = [r for r in document.metrics if r.phase == phase]
        found |= {(phase, *each) for each in rows_of(seen) - inference_rows(workload, phase, seen)}
    # A percentile without enough requests behind it has no value; the harness's log here has enough.
    percentiles = {"p90", "p95", "p99", "p999"}
    return {each for each in found if not (each[-1] is False and each[2] in percentiles)}


@pytest.mark.parametrize("trial", every_workload(), ids=lambda trial: trial.workload.name)
def test_every_simulated_number_is_one_that_the_harness_makes(trial: Trial) -> None:
    assert invented(trial) == set()


def test_an_engine_reports_no_stages_of_its_own_and_no_agreement() -> None:
    (engine,) = (t for t in every_workload() if t.workload.name == "chat-8b-1gpu")
    document = simulate(engine)
    names = {r.metric for r in document.metrics}
    assert not names & {"output_agreement", "prefill_time", "decode_time"}
    assert {s.stage for s in document.stages} == {"dispatch"}


def test_an_invented_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: with the engine's model taken for one that reports its times, its stages are too many."""
    (engine,) = (t for t in every_workload() if t.workload.name == "chat-8b")
    monkeypatch.setattr("plumbline.kinds.simulation.serving._reports_times", lambda workload: True)
    assert {each[1] for each in invented(engine)} >= {"prefill_time", "decode_time"}
