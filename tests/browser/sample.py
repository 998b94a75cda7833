"""A campaign as two local providers would hand it in: real declarations, documents, stored evidence; numbers drawn from a seed."""

from __future__ import annotations

import hashlib
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.analysis.campaign_data import CampaignData, FindingRow, SeriesDrift
from plumbline.analysis.drift.series_state import SeriesState
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider, Trial, criteria_hash, load, series_key, spec_hash, trial_id
from plumbline.results import (
    Curve,
    Environment,
    Event,
    Evidence,
    LaunchRecord,
    MetricRow,
    Point,
    Reason,
    Reproducibility,
    ResultDocument,
    ResultStore,
    Stage,
    Validity,
    metric_row,
)

BEGAN = datetime(2026, 11, 20, 2, 0, tzinfo=timezone.utc)
SPEED = {"local-1core": 1.0, "local-2core": 1.62}


def record(archive: Archive, data: CampaignData) -> None:
    """Every document of the campaign, as its run records it."""
    assert data.store is not None
    for document in data.documents:
        archive.record(document, uri=data.store.uri(data.store.folder(document.trial)))


def campaign(folder: Path, *, repeats: int = 3, names: tuple[str, ...] = ("local-1core", "local-2core")) -> CampaignData:
    """A monthly campaign with one degraded trial, one refused launch and one planned trial that never came back."""
    declared = load()
    store = ResultStore(folder.resolve().as_uri())
    rng = np.random.default_rng(20261120)
    planned, documents = [], []
    for name in names:
        provider = declared.providers[name]
        for workload_name in ("gpt-tiny-cpu", "chat-tiny-cpu"):
            for repeat in range(1, repeats + 1):
                trial = _trial(declared, provider, workload_name, repeat)
                planned.append(trial)
                if name == names[-1] and workload_name == "chat-tiny-cpu" and repeat == repeats and repeats > 2:
                    continue
                make = _training if trial.workload.kind == "training" else _inference
                document = make(store, trial, rng)
                store.put_trial(trial)
                store.put_document(document)
                store.put_collected(document)
                documents.append(document)
    if repeats > 2:
        documents.append(_refused(_trial(declared, declared.providers[names[0]], "gpt-tiny-cpu", repeats, attempt=2)))
    first = documents[0].trial
    return CampaignData(
        campaign_id=first.campaign_id,
        reason=first.reason,
        documents=tuple(documents),
        providers={n: declared.providers[n] for n in names},
        teams=declared.teams,
        written_at=BEGAN + timedelta(hours=5),
        planned=tuple(planned),
        findings=(
            FindingRow(
                finding_id="7a11c2d94e0b4f6f9f1d",
                series_key=first.series_key,
                kind="performance",
                severity="page",
                headline="PAGE  local-1core · training gpt-tiny-cpu · step_time +7.9 % (95 %: +6.8 … +9.1), 3 of 3 repeats",
                state="open",
                explanation="explained by: cpu.frequency_max_mhz 3700 → 3400 (3 of 3 trials)\nmatmul −8.2 % agrees, memory bandwidth unchanged",
                campaign_id=first.campaign_id,
            ),
        ),
        drift=tuple(
            SeriesDrift(t.series_key, t.provider.name, t.workload.kind, t.workload.name, ("2026-10",), verdicts, state=SeriesState(state))
            for t, (state, verdicts) in zip(
                {t.series_key: t for t in planned}.values(),
                (
                    ("drifted", {"regressed": 1, "unchanged": 9}),
                    ("steady", {"unchanged": 14, "insufficient_data": 2}),
                    ("steady", {"unchanged": 10}),
                    ("suspected", {"unchanged": 15, "suspected": 1}),
                ),
                strict=False,
            )
        ),
        store=store,
        workloads=declared.workloads,
        references=declared.references,
        economics=declared.economics,
        retention_s=declared.upkeep.evidence.keep,
    )


def _trial(declared: Declarations, provider: Provider, name: str, repeat: int, attempt: int = 1) -> Trial:
    workload = declared.workloads[name]
    return Trial(
        trial_id=trial_id("2026-11", provider, workload, "02:00", repeat),
        campaign_id="2026-11",
        reason="monthly rerun of both local providers",
        planned_at=BEGAN,
        provider=provider,
        workload=workload,
        validity=declared.thresholds.validity,
        slot="02:00",
        repeat=repeat,
        attempt=attempt,
        series_key=series_key(workload, provider),
        spec_hash=spec_hash(workload),
        criteria_hash=criteria_hash(workload, declared.thresholds.validity),
    )


def _environment(provider: Provider) -> Environment:
    return Environment.of(
        {
            "cpu.model": "AMD EPYC 9B45",
            "cpu.logical": 2,
            "cpu.usable": provider.accelerator.count,
            "cpu.usable_list": "0" if provider.accelerator.count == 1 else "0,1",
            "memory.total_bytes": 24_696_061_952,
            "os.name": "Debian GNU/Linux 12",
            "os.kernel": "6.1.0-25-amd64",
            "python.version": "3.11.7",
            "torch.version": "2.13.0+cpu",
            "triton.version": "2.51.0",
            "gpu.count": 0,
            "host.virtualization": "kvm",
            "limits.cpu_quota": None,
        }
    )


def _evidence(store: ResultStore, trial: Trial, kind: str, table: pa.Table) -> Evidence:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    uri = f"evidence/{kind}.parquet"
    store.put(f"{store.folder(trial)}/{uri}", data)
    return Evidence(kind=kind, uri=uri, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), rows=table.num_rows)


def _sealed(
    trial: Trial,
    metrics: list[MetricRow],
    stages: list[Stage],
    evidence: list[Evidence],
    held_s: float,
    degraded: Reason | None,
    curves: tuple[Curve, ...] = (),
) -> ResultDocument:
    start = BEGAN + timedelta(minutes=4 * trial.repeat)
    speed = SPEED[trial.provider.name]
    document = ResultDocument.sealed(
        trial=trial,
        harness_version="0.1.0",
        environment=_environment(trial.provider),
        reproducibility=Reproducibility(
            seeds={"run": 1},
            hashes={"spec": trial.spec_hash, **({"losses": hashlib.sha256(trial.spec_hash.encode()).hexdigest()} if curves else {})},
            replay_command=f"plumbline replay {trial.trial_id}",
        ),
        timeline=(
            Event(name="probe_begun", utc=start, monotonic_s=10.0),
            Event(name="steady_started", utc=start + timedelta(seconds=held_s / 3), monotonic_s=10 + held_s / 3),
            Event(name="steady_ended", utc=start + timedelta(seconds=held_s - 5), monotonic_s=5 + held_s),
            Event(name="finished", utc=start + timedelta(seconds=held_s - 3), monotonic_s=7 + held_s),
        ),
        validity=Validity(status="degraded", reasons=(degraded,)) if degraded else Validity(status="valid"),
        curves=curves,
        metrics=(
            metric_row("matmul_tflops", 61e9 * speed, 8, phase="environment"),
            metric_row("memory_bandwidth", 14.2e9 * (1 + 0.2 * speed), 8, phase="environment"),
            metric_row("disk_write_bandwidth", 412e6, 4, phase="environment"),
            *metrics,
        ),
        stages=tuple(stages),
        evidence=tuple(evidence),
    )
    return document.with_launch(
        LaunchRecord(
            launcher="local",
            events=(
                Event(name="requested", utc=start, monotonic_s=5.0, clock="launcher"),
                Event(name="released", utc=start + timedelta(seconds=held_s), monotonic_s=5.0 + held_s, clock="launcher"),
            ),
            exit_code=0,
        )
    )


def _training(store: ResultStore, trial: Trial, rng: np.random.Generator) -> ResultDocument:
    speed = SPEED[trial.provider.name]
    level = 0.0262 / speed * float(rng.normal(1, 0.006))
    steps = np.arange(130)
    seconds = level * rng.lognormal(0, 0.02, steps.size)
    seconds[0] *= 6
    seconds[1:10] *= np.linspace(1.5, 1.05, 9)
    seconds[[40, 80, 120]] *= 1.35
    noisy = trial.provider.name == "local-1core" and trial.repeat == 2
    if noisy:
        seconds[60:72] *= 1.9
    steady = seconds[10:]
    table = pa.table(
        {
            "run": ["run"] * steps.size,
            "phase": ["cold_start"] + ["warmup"] * 9 + ["steady"] * 120,
            "step": steps,
            "step_s": seconds,
            "loss": 7.2 * np.exp(-steps / 70),
        }
    )
    median = float(np.median(steady))
    metrics = [
        metric_row("step_time", median, 120, ci=(median * 0.996, median * 1.004)),
        metric_row("step_time", float(np.percentile(steady, 95)), 120, statistic="p95"),
        metric_row("step_time", float(np.percentile(steady, 99)), 120, statistic="p99"),
        metric_row("step_time", float(steady.std() / steady.mean()), 120, statistic="cv"),
        metric_row("tokens_per_second", 512 / median, 120),
        metric_row("tokens_per_second_per_device", 512 / median / trial.provider.accelerator.count, 120),
        metric_row("samples_per_second", 8 / median, 120),
        metric_row("model_flops", 2.6e9 / median, 120),
        metric_row("model_flops_utilization", 2.6e9 / median / (61e9 * speed) / 2.2, 120),
        metric_row("data_wait_time", 0.00021, 120),
        metric_row("first_step_time", float(seconds[0]), 1, phase="cold_start"),
        metric_row("time_to_first_step", 3.4 + float(rng.normal(0, 0.1)), 1, phase="cold_start"),
        metric_row("final_loss", 1.16, 1),
        metric_row("checkpoint_save_time", 0.0181 * float(rng.normal(1, 0.08)), 3),
        metric_row("checkpoint_blocking_time", 0.0064 * float(rng.normal(1, 0.05)), 3),
        metric_row("checkpoint_size", 13_246_512, 3),
        metric_row("checkpoint_load_time", 0.0108 * float(rng.normal(1, 0.05)), 1, phase="recovery"),
        metric_row("restart_penalty", 4.9 / speed**0.3 * float(rng.normal(1, 0.03)), 1, phase="recovery"),
        metric_row("training_goodput", 0.41 * float(rng.normal(1, 0.02)), 1, phase="recovery"),
    ]
    stages = [
        Stage(phase="steady", stage=name, total_s=float(steady.sum()) * share, n=120)
        for name, share in (("data_wait", 0.008), ("forward", 0.31), ("backward", 0.55), ("optimizer", 0.112), ("checkpoint", 0.02))
    ]
    reason = (
        Reason(code="step_time_unsteady", detail="step time CV 28 % is over 25 %: other processes ran on core 0 for 1.1 s")
        if noisy
        else None
    )
    return _sealed(trial, metrics, stages, [_evidence(store, trial, "steps", table)], 21.0 / speed**0.5, reason, _curves(seconds))


def _curves(seconds: np.ndarray) -> tuple[Curve, ...]:
    """Loss and throughput of the steps, in the phases of their table; and of two ranks, of which the second is the slower one."""
    ends, phases = np.cumsum(seconds), (("cold_start", 0, 1), ("warmup", 1, 10), ("steady", 10, len(seconds)))
    found = []
    for phase, first, last in phases:
        loss = [Point(at=i, value=7.2 * float(np.exp(-i / 70)), n=1) for i in range(first, last)]
        rate = [Point(at=float(ends[i] - seconds[i] / 2), value=512 / float(seconds[i]), n=1) for i in range(first, last)]
        found += [
            Curve(phase=phase, along="step", metric="training_loss", statistic="mean", unit="nats", points=tuple(loss)),
            Curve(
                phase=phase, along="run_time", metric="effective_tokens_per_second", statistic="value", unit="tokens/s", points=tuple(rate)
            ),
        ]
    level = float(np.median(seconds))
    busy = [
        Point(at=rank, value=level * share, n=120, ci_low=level * share * 0.99, ci_high=level * share * 1.01)
        for rank, share in ((0, 0.9), (1, 0.97))
    ]
    return (*found, Curve(phase="steady", along="rank", metric="rank_busy_time", statistic="median", unit="s", points=tuple(busy)))


def _inference(store: ResultStore, trial: Trial, rng: np.random.Generator) -> ResultDocument:
    speed = SPEED[trial.provider.name]
    n = 92
    scheduled = np.sort(rng.uniform(0, 15, n))
    first = scheduled + 0.0175 / speed * rng.lognormal(0, 0.42, n)
    gap = 0.0041 / speed**0.5 * rng.lognormal(0, 0.12, n)
    last = first + 15 * gap
    ttft, total = first - scheduled, last - scheduled
    table = pa.table(
        {
            "phase": ["steady"] * n,
            "scheduled_s": scheduled,
            "first_token_s": first,
            "last_token_s": last,
            "status": ["ok"] * n,
        }
    )

    def spread(metric: str, values: np.ndarray) -> list[MetricRow]:
        return [
            metric_row(metric, float(np.percentile(values, int(s[1:]))), len(values), statistic=s) for s in ("p50", "p90", "p95", "p99")
        ]

    rate = n / 15
    held = 80.0 * speed * float(rng.normal(1, 0.02))
    metrics = [
        *spread("time_to_first_token", ttft),
        *spread("time_per_output_token", gap),
        *spread("inter_token_latency", gap),
        *spread("request_scheduled_latency", total),
        *spread("request_latency", total - 0.0002),
        metric_row("request_dispatch_delay", 0.00021, n),
        metric_row("achieved_rate_ratio", 1.0, n),
        metric_row("request_throughput", rate, n),
        metric_row("output_token_throughput", rate * 16, n),
        metric_row("output_token_throughput_per_user", float(np.median(1 / gap)), n),
        metric_row("goodput", rate, n),
        metric_row("error_rate", 0.0, n),
        metric_row("queue_time", 0.0031 / speed**2, n),
        metric_row("compute_time", 0.0712 / speed**0.5, n),
        metric_row("time_to_ready", 2.31 * float(rng.normal(1, 0.03)), 1, phase="cold_start"),
        metric_row("model_load_time", 1.62 * float(rng.normal(1, 0.03)), 1, phase="cold_start"),
        metric_row("first_inference_latency", 0.131 / speed, 1, phase="cold_start"),
        metric_row("highest_sustained_rate", held, 8, phase="sweep", ci=(held, held * 1.2)),
        metric_row("request_throughput", held, 160, phase="sweep"),
        metric_row("output_token_throughput", held * 16, 2560, phase="sweep"),
        metric_row("goodput", held * 0.98, 160, phase="sweep"),
        metric_row("error_rate", 0.0, 160, phase="sweep"),
    ]
    stages = [
        Stage(phase="steady", stage="queue", total_s=0.0031 / speed**2 * n, n=n),
        Stage(phase="steady", stage="prefill", total_s=float((first - scheduled).sum()) * 0.7, n=n),
        Stage(phase="steady", stage="decode", total_s=float((15 * gap).sum()), n=n),
    ]
    return _sealed(trial, metrics, stages, [_evidence(store, trial, "requests", table)], 33.0, None)


def _refused(trial: Trial) -> ResultDocument:
    reason = Reason(code="launch_timeout", detail="the harness did not start within 30 s")
    return ResultDocument.sealed(
        trial=trial, harness_version="0.1.0", validity=Validity(status="failed", reasons=(reason,), failure_class="launch_timeout")
    )


if __name__ == "__main__":
    from plumbline.presentation.html.report import write_report

    where = Path(sys.argv[1])
    sys.stdout.write(f"{write_report(campaign(where / 'results'), where / 'reports')}\n")
