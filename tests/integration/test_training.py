"""Real training in real processes: a tiny model, few steps."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date, datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from tests.fakes.processes import lives
from tests.fakes.quick_python import search_path
from tests.fakes.trials import declared

from plumbline.analysis.cost.unit_costs import costs_of
from plumbline.analysis.prices.book import Basis, Quote
from plumbline.declarations import Provider, Trial, criteria_hash, series_key, spec_hash, trial_id
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.harness.training.job.trial import measure
from plumbline.harness.training.worker_protocol import STAGES

ROOT = Path(__file__).resolve().parents[2]
TINY: dict[str, Any] = {
    "kind": "training",
    "name": "tiny",
    "version": 1,
    "needs": {"accelerator": "cpu"},
    "model": {"architecture": "gpt", "layers": 2, "width": 32, "heads": 2, "vocabulary": 64, "context": 16, "seed": 3},
    "data": {"source": "synthetic", "tokens": 4096, "seed": 5},
    "batch": {"micro": 4, "accumulation": 2, "sequence": 16},
    "precision": "fp32",
    "optimizer": {"name": "adamw", "learning_rate": 0.001},
    "steps": {"discard": 3, "measure": 17},
    "checkpoint": {"every": 6, "keep": 1},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}
ENDLESS = {"steps": {"discard": 3, "measure": 1_000_000}}


def trial(where: Provider | None = None, **changed: Any) -> Trial:
    """A trial of the tiny workload, some keys replaced, on the one-core provider or another."""
    world = declared()
    provider, validity = where or world.providers["local-1core"], world.thresholds.validity
    workload = TrainingWorkload.model_validate_json(json.dumps(TINY | changed))
    return Trial(
        trial_id=trial_id("test", provider, workload, "02:00", 1),
        campaign_id="test",
        reason="a test",
        planned_at=datetime.now(timezone.utc),
        provider=provider,
        workload=workload,
        validity=validity,
        slot="02:00",
        repeat=1,
        series_key=series_key(workload, provider),
        spec_hash=spec_hash(workload),
        criteria_hash=criteria_hash(workload, validity),
    )


def run(folder: Path, reports: list[tuple[float, str, float]] | None = None, **changed: Any) -> Measurement:
    """Measure, noting when and what was reported."""

    def progress(phase: str, fraction: float, note: str = "") -> None:
        if reports is not None:
            reports.append((time.monotonic(), phase, fraction))

    work = folder / "work"
    work.mkdir()
    with ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        return measure(trial(**changed), work, progress, watch)


def codes(measured: Measurement) -> set[str]:
    return {judgement.reason.code for judgement in measured.judgements}


def workers() -> list[psutil.Process]:
    """Training processes below this one."""
    return [p for p in psutil.Process().children(recursive=True) if trains(p)]


def trains(process: psutil.Process) -> bool:
    """Whether it is a training process; one that has ended since it was listed is none."""
    try:
        return "plumbline.harness.training.worker" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def all_end(processes: list[psutil.Process]) -> bool:
    """Wait for processes whose parent is gone. Whoever took them over may take note late or never: a zombie has ended."""
    deadline = time.monotonic() + 60
    while any(map(lives, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(lives, processes))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of its own; and no test leaves a process behind."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    yield
    assert workers() == []


def test_a_run_that_is_killed_and_resumed(tmp_path: Path) -> None:
    reports: list[tuple[float, str, float]] = []
    measured = run(tmp_path, reports, fault={"inject": "rank_kill", "at_step": 10}, loss={"low": 1.0, "high": 4.5})
    value = {(row.phase, row.metric, row.statistic): row.value for row in measured.metrics}

    assert {"checkpoint_restored_exactly", "losses_continue_exactly"} == set(measured.guarantees)
    assert not codes(measured) & {"loss_out_of_range", "losses_diverge_after_resume", "checkpoint_not_restored", "checkpoint_damaged"}

    steps = pq.read_table(measured.evidence[0].path).to_pylist()
    done = {name: [r["step"] for r in steps if r["run"] == name] for name in ("run", "fault", "recovery")}
    assert done == {"run": list(range(20)), "fault": [6, 7, 8, 9], "recovery": [6, 7, 8, 9, 10, 11]}
    losses = {name: {r["step"]: r["loss"] for r in steps if r["run"] == name} for name in done}
    assert all(losses["run"][step] == loss for name in ("fault", "recovery") for step, loss in losses[name].items())
    assert losses["run"][19] < losses["run"][0]

    penalty = value["recovery", "restart_penalty", "value"]
    parts = [value["recovery", f"restart_{name}_time", "value"] for name in ("detect", "launch", "recompute")]
    load = value["recovery", "checkpoint_load_time", "median"]
    assert penalty is not None and load is not None and all(part is not None and part > 0 for part in parts)
    # Against moments that were noted apart from the parts: the kill, and the end of the step that was lost.
    at = {event.name: event.monotonic_s for event in measured.events}
    again = next(r for r in steps if r["run"] == "recovery" and r["step"] == 10)
    assert at["rank_killed"] is not None
    assert sum(part for part in parts if part) + load == pytest.approx(again["start_s"] + again["step_s"] - at["rank_killed"], rel=0.05)
    assert 0 < (value["recovery", "training_goodput", "value"] or 0) < 1

    steady = [r for r in steps if r["phase"] == "steady"]
    assert len(steady) == 17
    assert all(sum(r[f"{stage}_s"] or 0.0 for stage in STAGES) <= r["step_s"] * 1.0001 for r in steady)
    assert [r["step"] for r in steps if r["run"] == "run" and r["checkpoint_s"] is not None] == [5, 11, 17]
    assert measured.facts["torch.threads"] == len(os.sched_getaffinity(0))
    assert set(measured.hashes) == {"data", "initial_weights", "losses"}

    assert [phase for i, (_, phase, _) in enumerate(reports) if i == 0 or reports[i - 1][1] != phase][-2:] == ["fault", "recovery"]
    assert all(earlier[2] <= later[2] for earlier, later in pairwise(reports))
    assert not list((tmp_path / "work").rglob("*.pt")), "checkpoints are deleted with the trial"


@pytest.mark.full
def test_bf16_without_a_fault(tmp_path: Path) -> None:
    measured = run(tmp_path, precision="bf16", loss={"low": 0.1, "high": 0.2})
    rows = {(row.phase, row.metric, row.statistic): row for row in measured.metrics}
    assert measured.facts["torch.precision"] == "bf16"
    assert ("cooldown", "checkpoint_load_time", "median") in rows and not any(phase == "recovery" for phase, _, _ in rows)
    assert measured.guarantees == ["checkpoint_restored_exactly"]
    assert (rows["steady", "model_flops_utilization", "median"].value or 0) > 0
    assert "loss_out_of_range" in codes(measured), "a loss outside the declared range makes the trial invalid"


def when_training(action: Any) -> threading.Thread:
    """Do something to the first worker once it trains."""

    def wait() -> None:
        while not (found := workers()) or not _steps(found[0]):
            time.sleep(0.05)
        action(found[0])

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def _steps(worker: psutil.Process) -> bool:
    try:
        log = Path(json.loads(Path(worker.cmdline()[-2]).read_text())["log"])
    except (psutil.Error, OSError, ValueError, IndexError):
        return False
    return log.exists() and b'"step"' in log.read_bytes()


def test_a_worker_killed_by_somebody_else_interrupts_the_trial_and_its_steps_are_kept(tmp_path: Path) -> None:
    when_training(lambda worker: worker.kill())
    with pytest.raises(TrialFailed, match="SIGKILL from outside") as caught:
        run(tmp_path, restarts=0, **ENDLESS)
    assert caught.value.failure_class == "interrupted"
    assert caught.value.partial.evidence[0].rows
    assert caught.value.partial.seeds


@pytest.mark.full
def test_a_disk_without_room_says_so(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(TrialFailed, match="file size limit") as caught:
            run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.failure_class == "harness_error"
    assert caught.value.partial.metrics, "what was measured until then is kept"


def test_a_gpu_that_torch_cannot_use_is_the_images_fault(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    built_for_gpus = torch.version.cuda is not None or torch.version.hip is not None
    with pytest.raises(TrialFailed) as caught:
        run(tmp_path, needs={"accelerator": "nvidia"})
    assert caught.value.failure_class == ("wrong_hardware" if built_for_gpus else "image_error")


@pytest.mark.full
def test_an_interrupt_ends_the_worker(tmp_path: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None
    when_training(lambda worker: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, **ENDLESS)


@pytest.mark.full
def test_the_worker_ends_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.integration.test_training import ENDLESS, run; run(Path(sys.argv[1]), **ENDLESS)"
    )
    environment = {**os.environ, "PYTHONPATH": search_path(ROOT, ROOT / "include")}
    harness = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment, cwd=ROOT)
    found: list[psutil.Process] = []
    seen = threading.Event()
    when_training(lambda worker: (found.append(worker), seen.set()))
    try:
        assert seen.wait(200)
    finally:
        harness.kill()
        harness.wait()
    assert all_end(found)


@pytest.mark.exclusive
def test_the_cost_of_tokens_is_the_price_of_the_stopwatch(tmp_path: Path) -> None:
    """Price × wall time ÷ tokens, a checkpoint at each declared interval, against the cost by the reported rate: within 1 %."""
    every = 20
    measured = run(tmp_path, steps={"discard": 20, "measure": 600}, checkpoint={"every": every, "keep": 1})
    values = {(row.metric, row.statistic, row.phase): row.value for row in measured.metrics}
    usd_per_hour = 2.0
    quoted = Quote(Basis("on_demand", usd_per_hour, date(2026, 1, 1), "a test"), None)
    cost = next(c for c in costs_of("training", quoted, lambda *key: values.get(key)) if c.metric == "cost_per_1m_trained_tokens")

    steps = [s for s in pq.read_table(next(e.path for e in measured.evidence if e.kind == "steps")).to_pylist() if s["phase"] == "steady"]
    saves = [step["checkpoint_s"] for step in steps if step["checkpoint_s"] is not None]
    assert len(saves) >= len(steps) // every - 1 > 10
    # From the first step's begin to the last one's, on one clock; a window of whole intervals alone would be other steps than the rate's, and this
    # machine's speed changes. Our own checksum of a checkpoint is no training.
    before_last = steps[:-1]
    wall_s = steps[-1]["start_s"] - steps[0]["start_s"] - sum(step["checksum_s"] or 0.0 for step in before_last)
    held_up_s = sum(step["checkpoint_s"] or 0.0 for step in before_last)
    each_s = (wall_s - held_up_s) / len(before_last) + sum(saves) / len(saves) / every
    stopwatch = usd_per_hour / 3600 * each_s / (4 * 2 * 16) * 1e6
    assert cost.value == pytest.approx(stopwatch, rel=0.01)
    # From the end of one checkpoint to the end of another, whatever lies between: other steps than the rate's, so only nearly the same.
    after = [i + 1 for i, step in enumerate(before_last) if step["checkpoint_s"] is not None]
    whole = steps[after[0] : after[-1]]
    whole_s = steps[after[-1]]["start_s"] - whole[0]["start_s"] - sum(step["checksum_s"] or 0.0 for step in whole)
    assert len(whole) % every == 0 and len(whole) >= len(steps) - 2 * every
    assert cost.value == pytest.approx(usd_per_hour / 3600 * whole_s / (len(whole) * 4 * 2 * 16) * 1e6, rel=0.05)
    median = values["tokens_per_second", "median", "steady"]
    assert median is not None
    assert usd_per_hour / 3600 / median * 1e6 < stopwatch, "the median step leaves something out"
