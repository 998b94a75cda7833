"""Golden result documents for tests: whole, plausible and sealed, with single things changed on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.declarations import (
    InferenceWorkload,
    Provider,
    TrainingWorkload,
    Trial,
    ValidityLimits,
    criteria_hash,
    series_key,
    spec_hash,
    trial_id,
)
from plumbline.results import (
    Environment,
    Event,
    Evidence,
    LaunchRecord,
    MetricRow,
    Reason,
    ResultDocument,
    Stage,
    Telemetry,
    Validity,
    metric_row,
)

PLANNED = datetime(2025, 11, 1, 1, 0, tzinfo=timezone.utc)
FACTS: dict[str, Any] = {
    "cpu.model": "Example CPU 9000",
    "cpu.logical": 2,
    "cpu.usable": 2,
    "memory.total_bytes": 8 * 2**30,
    "os.kernel": "6.1.0",
    "os.name": "Example Linux 12",
    "python.version": "3.11.7",
    "torch.version": "2.13.0",
}

VALIDITY = ValidityLimits.model_validate_json(
    json.dumps(
        {
            "step_time_cv_degraded": "25%",
            "step_time_cv_invalid": "100%",
            "cpu_pressure_degraded": "40%",
            "cpu_pressure_invalid": "90%",
            "foreign_cpu_degraded": "15%",
            "foreign_cpu_invalid": "40%",
            "dispatch_delay_degraded": "10ms",
            "dispatch_delay_invalid": "100ms",
            "achieved_rate_degraded": "99%",
            "achieved_rate_invalid": "95%",
        }
    )
)
_MODEL = {"architecture": "gpt", "layers": 2, "width": 64, "heads": 4, "vocabulary": 256, "context": 64}


def provider(name: str = "lab-2core", **changed: Any) -> Provider:
    """A local provider."""
    declared = {
        "name": name,
        "cloud": "local",
        "region": "here",
        "instance_type": "host-2core",
        "accelerator": {"kind": "cpu", "count": 2},
        "launcher": {"kind": "local", "cpus": [0, 1]},
        **changed,
    }
    return Provider.model_validate_json(json.dumps(declared))


def training_workload(**changed: Any) -> TrainingWorkload:
    """A training workload of 20 measured steps."""
    declared = {
        "kind": "training",
        "name": "gpt-test",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "model": _MODEL,
        "data": {"source": "synthetic", "tokens": 65536},
        "batch": {"micro": 2, "sequence": 32},
        "precision": "fp32",
        "optimizer": {"name": "adamw", "learning_rate": 1e-3},
        "steps": {"discard": 2, "measure": 20},
        "checkpoint": {"every": 10},
        "repeats": {"per_slot": 2, "slots": ["02:00"]},
        **changed,
    }
    return TrainingWorkload.model_validate_json(json.dumps(declared))


def inference_workload(**changed: Any) -> InferenceWorkload:
    """An inference workload with a warm-up and a steady phase."""
    declared = {
        "kind": "inference",
        "name": "chat-test",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "model": _MODEL,
        "server": {"backend": "python"},
        "requests": {"input_tokens": {"constant": 16}, "output_tokens": {"constant": 8}, "seed": 1},
        "phases": [
            {"name": "warmup", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "2s"},
            {"name": "steady", "arrivals": {"poisson": {"rate": "6/s"}}, "duration": "10s"},
        ],
        "slo": {"time_to_first_token": "500ms"},
        "repeats": {"per_slot": 2, "slots": ["02:00"]},
        **changed,
    }
    return InferenceWorkload.model_validate_json(json.dumps(declared))


def trial(
    kind: str = "training",
    *,
    campaign: str = "2025-11",
    slot: str = "02:00",
    repeat: int = 1,
    attempt: int = 1,
    where: Provider | None = None,
    workload: TrainingWorkload | InferenceWorkload | None = None,
    planned_at: datetime = PLANNED,
    replay_of: str | None = None,
) -> Trial:
    """A planned trial whose hashes hold."""
    place = where or provider()
    asked = workload or (training_workload() if kind == "training" else inference_workload())
    return Trial(
        trial_id=trial_id(campaign, place, asked, slot, repeat),
        campaign_id=campaign,
        reason="test",
        planned_at=planned_at,
        provider=place,
        workload=asked,
        validity=VALIDITY,
        slot=slot,
        repeat=repeat,
        attempt=attempt,
        series_key=series_key(asked, place),
        spec_hash=spec_hash(asked),
        criteria_hash=criteria_hash(asked, VALIDITY),
        schedule_hash="ab" * 32 if asked.kind == "inference" else None,
        replay_of=replay_of,
    )


def training_metrics(step_time: float = 0.1, steps: int = 20) -> list[MetricRow]:
    """What a training trial of `steps` steady steps reports."""
    return [
        metric_row("matmul_tflops", 2e11, 30, phase="environment"),
        metric_row("memory_bandwidth", 1e10, 30, phase="environment"),
        metric_row("disk_write_bandwidth", 4e8, 3, phase="environment"),
        metric_row("first_step_time", step_time * 3, 1, phase="cold_start"),
        metric_row("time_to_first_step", 2.0, 1, phase="cold_start"),
        metric_row("step_time", step_time, steps, ci=(step_time * 0.98, step_time * 1.02)),
        metric_row("step_time", step_time * 1.01, steps, statistic="mean"),
        metric_row("step_time", step_time * 1.2, steps, statistic="p95"),
        metric_row("step_time", step_time * 1.4, steps, statistic="p99"),
        metric_row("step_time", 0.05, steps, statistic="cv"),
        metric_row("data_wait_time", 0.0, steps),
        metric_row("tokens_per_second", 64 / step_time, steps),
        metric_row("samples_per_second", 2 / step_time, steps),
        metric_row("model_flops", 1e9, steps),
        metric_row("model_flops_utilization", 0.3, steps),
        metric_row("effective_tokens_per_second", 50 / step_time, steps + 2, statistic="value"),
        metric_row("final_loss", 5.1, 1),
        metric_row("restart_penalty", 4.0, 1, phase="recovery"),
        metric_row("training_goodput", 0.6, 1, phase="recovery"),
    ]


def believed_training_metrics() -> tuple[MetricRow, ...]:
    """Those of a run that the quality checks believe."""
    own = (row for row in training_metrics(steps=75) if row.metric != "effective_tokens_per_second")
    return (*own, metric_row("effective_tokens_per_second", 400.0, 90, statistic="value"))  # with the steps of its warm-up


def inference_metrics(latency: float = 0.05, requests: int = 60) -> list[MetricRow]:
    """What an inference trial of `requests` steady requests reports."""
    rows = [
        metric_row("matmul_tflops", 2e11, 30, phase="environment"),
        metric_row("memory_bandwidth", 1e10, 30, phase="environment"),
        metric_row("time_to_ready", 3.0, 1, phase="cold_start"),
        metric_row("first_inference_latency", 0.2, 1, phase="cold_start"),
        metric_row("request_throughput", 5.8, requests),
        metric_row("output_token_throughput", 46.0, requests),
        metric_row("goodput", 5.8, requests),
        metric_row("error_rate", 0.0, requests),
        metric_row("achieved_rate_ratio", 1.0, requests),
        metric_row("offered_rate", 6.0, requests),
        metric_row("request_dispatch_delay", 0.0004, requests),
    ]
    for name, factor in (
        ("time_to_first_token", 0.4),
        ("time_per_output_token", 0.1),
        ("inter_token_latency", 0.1),
        ("request_latency", 1.0),
        ("request_scheduled_latency", 1.02),
    ):
        for statistic, spread in (("p50", 1.0), ("p90", 1.3), ("p95", 1.5), ("p99", 2.0)):
            rows.append(metric_row(name, latency * factor * spread, requests, statistic=statistic))
    return rows


def failed(asked: Trial, failure_class: str = "out_of_memory") -> ResultDocument:
    """A trial that never measured anything."""
    reason = Reason(code=failure_class, detail="the process was ended")
    return ResultDocument.sealed(
        trial=asked,
        harness_version="unknown",
        validity=Validity(status="failed", reasons=(reason,), failure_class=failure_class),  # type: ignore[arg-type]
        simulated=asked.provider.simulated,
    )


def document(
    asked: Trial | None = None,
    *,
    metrics: Sequence[MetricRow] | None = None,
    status: str = "valid",
    facts: Mapping[str, Any] | None = None,
    simulated: bool = False,
    **fields: Any,
) -> ResultDocument:
    """A whole document of a trial that was measured; `fields` replace parts of it before it is sealed."""
    asked = asked or trial()
    given = metrics if metrics is not None else training_metrics() if asked.workload.kind == "training" else inference_metrics()
    started = asked.planned_at + timedelta(hours=1, minutes=asked.repeat)
    content: dict[str, Any] = {
        "trial": asked,
        "harness_version": "0.1.0",
        "environment": Environment.of(dict(facts if facts is not None else FACTS)),
        "timeline": (
            Event(name="harness_started", utc=started, monotonic_s=1.0),
            Event(name="harness_finished", utc=started + timedelta(seconds=40), monotonic_s=41.0),
        ),
        "validity": Validity(
            status=status,  # type: ignore[arg-type]
            reasons=() if status == "valid" else (Reason(code="step_time_unsteady", detail="neighbours"),),
        ),
        "metrics": tuple(given),
        "stages": (Stage(phase="steady", stage="forward", total_s=1.2, n=20),),
        "telemetry": (Telemetry(phase="steady", signal="cpu_pressure_some", unit="ratio", n=10, mean=0.1, min=0.0, max=0.3),),
        "evidence": (Evidence(kind="steps", uri="evidence/steps.parquet", sha256="cd" * 32, bytes=1000, rows=22),),
        "simulated": simulated,
        **fields,
    }
    sealed = ResultDocument.sealed(**content)
    requested = Event(name="requested", utc=asked.planned_at + timedelta(minutes=59), monotonic_s=1.0, clock="launcher")
    return sealed.with_launch(LaunchRecord(launcher="local", events=(requested,), exit_code=0))
