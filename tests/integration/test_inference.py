"""One inference trial on a real tritonserver, and everything that can go wrong with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from tests.fakes.processes import lives
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload, Trial, criteria_hash, series_key, spec_hash
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference import trial as inference_trial
from plumbline.harness.inference.load.prompts import prompts_of
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.server import backends, shared_memory, tritonserver
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.inference.server.triton import Triton
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import Tensor
from plumbline.results import MetricRow


def short_trial(**changes: Any) -> Trial:
    """The shipped inference trial with short phases; `changes` replace fields of its workload."""
    planned = a_trial("inference")
    data = json.loads(planned.workload.model_dump_json()) | {"acceptance": []}
    data["phases"] = [
        {"name": "warmup", "arrivals": {"poisson": {"rate": "8/s"}}, "duration": "1s"},
        {"name": "steady", "arrivals": {"constant": {"rate": "15/s"}}, "duration": "2s"},
    ]
    workload = InferenceWorkload.model_validate_json(json.dumps(data | changes))
    return planned.model_copy(
        update={
            "workload": workload,
            "spec_hash": spec_hash(workload),
            "criteria_hash": criteria_hash(workload, planned.validity),
            "series_key": series_key(workload, planned.provider),
            "schedule_hash": schedule_of(workload).sha256,
        }
    )


LONG_STEADY = [{"name": "steady", "arrivals": {"constant": {"rate": "20/s"}}, "duration": "60s"}]


def measure(trial: Trial, workdir: Path, on_progress: Callable[[str], object] = lambda phase: None) -> Measurement:
    with ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        return inference_trial.measure(trial, workdir, lambda phase, fraction, note="": on_progress(phase), watch)


def a_repository(workload: InferenceWorkload, folder: Path) -> Repository:
    return backends.write(workload, folder / "models", threads=2)


def a_triton(written: Repository, workdir: Path, **changes: Any) -> Triton:
    settings = {"ready_within_s": 120, **changes}
    return Triton(tritonserver.find_installation(), written.folder, written.model, workdir, **settings)


def servers() -> list[psutil.Process]:
    """The tritonserver and model processes that this test process started and that still live."""
    return [p for p in psutil.Process().children(recursive=True) if "triton" in " ".join(_command(p))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever a test did to the server, no process and no shared memory stays."""
    yield
    assert servers() == []
    assert list(shared_memory.SHARED_MEMORY_FOLDER.glob(f"{shared_memory.shared_memory_prefix()}*")) == []


def test_a_whole_trial(tmp_path: Path) -> None:
    trial = short_trial()
    reported: list[tuple[str, float]] = []
    with ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        result = inference_trial.measure(trial, tmp_path, lambda phase, fraction, note="": reported.append((phase, fraction)), watch)

    values = {(r.phase, r.metric, r.statistic): r.value for r in result.metrics}
    assert values["steady", "offered_rate", "value"] == 15
    assert values["steady", "error_rate", "value"] == 0
    for metric, statistic in (
        ("time_to_first_token", "p50"),
        ("inter_token_latency", "p50"),
        ("request_latency", "mean"),
        ("request_scheduled_latency", "p90"),
        ("request_dispatch_delay", "max"),
        ("output_token_throughput_per_user", "p50"),
        ("queue_time", "mean"),
        ("compute_time", "mean"),
    ):
        value = values["steady", metric, statistic]
        # On a busy machine the client reads several tokens at once.
        assert value is not None and (0 < value < 1e6 or (metric, value) == ("inter_token_latency", 0)), (metric, statistic)
    first = values["cold_start", "first_inference_latency", "value"]
    loaded, ready = values["cold_start", "model_load_time", "value"], values["cold_start", "time_to_ready", "value"]
    assert first is not None and loaded is not None and ready is not None
    assert 0 < loaded < ready
    # What the server says it computed cannot be more than what the client waited.
    assert values["steady", "compute_time", "mean"] < values["steady", "request_latency", "mean"]  # type: ignore[operator]
    assert {(s.phase, s.stage) for s in result.stages} >= {("steady", name) for name in ("dispatch", "queue", "prefill", "decode")}

    requests = pq.read_table(next(e.path for e in result.evidence if e.kind == "requests")).to_pylist()
    schedule = pq.read_table(next(e.path for e in result.evidence if e.kind == "schedule")).to_pylist()
    assert len(requests) == len(schedule) == schedule_of(trial.workload).n
    assert [(r["phase"], r["number"], r["scheduled_s"]) for r in requests] == [(s["phase"], s["number"], s["arrival_s"]) for s in schedule]
    assert {r["status"] for r in requests} == {"ok"}
    assert all(len(r["token_times_s"]) == r["output_tokens"] == 16 for r in requests)
    assert any(e.kind == "server_log" and "tritonserver" in e.path.read_text() for e in result.evidence)

    assert isinstance(trial.workload, InferenceWorkload)
    assert result.facts["model.parameters"] == trial.workload.model.parameters
    assert result.facts["model.dtype"] == "float32"
    assert result.facts["model.threads"] == len(os.sched_getaffinity(0))
    assert result.facts["triton.version"]
    assert set(result.hashes) == {"schedule", "prompts", "model"}
    assert [e.name for e in result.events][:3] == ["server_started", "server_ready", "first_inference_ended"]
    fractions = [fraction for _, fraction in reported]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] <= 1
    counted = [j for j in result.judgements if j.reason.code == "counts_differ"]
    assert counted == [], "client and server count the same requests"

    agreement, ratio = client_rows(result)["client_agreement"], client_rows(result)["client_latency_ratio"]
    assert (agreement.value, failed_cross_checks(result)) == (1, []), "tritonclient's own client gets the same answers"
    assert agreement.n == ratio.n > 5 and ratio.value is not None and ratio.value > 0
    began, ended = (next(e.monotonic_s for e in result.events if e.name == f"cross_check_{when}") for when in ("started", "ended"))
    assert next(e.monotonic_s for e in result.events if e.name == "steady_ended") <= began <= ended


def client_rows(result: Measurement) -> dict[str, MetricRow]:
    return {row.metric: row for row in result.metrics if row.metric.startswith("client_") and row.phase == "steady"}


def failed_cross_checks(result: Measurement) -> list[str]:
    return [each.reason.detail for each in result.judgements if each.level == "invalid" and each.reason.code == "cross_check_failed"]


def test_a_broken_wire_makes_the_trial_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model answers the prompt that it got, which is another one than was declared."""
    monkeypatch.setattr(Tensor, "data", property(lambda tensor: tensor.values[::-1].tobytes()))
    result = measure(short_trial(), tmp_path)
    agreement = client_rows(result)["client_agreement"].value
    assert agreement is not None and agreement < 0.5
    (detail,) = failed_cross_checks(result)
    assert "answers differ from those that tritonclient gets" in detail


@pytest.mark.full
def test_sequences_are_batched_and_tokens_do_not_depend_on_it(tmp_path: Path) -> None:
    """Ten requests at once take far less than ten times one, and each gets the same tokens as alone."""
    from tests.fakes.triton_streams import Stream, stream

    def overlap(together: list[Stream]) -> bool:
        return max(s.first for s in together) < min(s.ended for s in together)

    workload = short_trial().workload
    assert isinstance(workload, InferenceWorkload)
    prompts = [prompt.ids for prompt in prompts_of(workload, schedule_of(workload)).by_phase[1][:10]]
    with a_triton(a_repository(workload, tmp_path), tmp_path) as triton:
        alone = [stream(triton.address, triton.model, [prompt], 64)[0] for prompt in prompts]
        tries = [stream(triton.address, triton.model, prompts, 64)]
        while not overlap(tries[-1]) and len(tries) < 10:  # on a busy machine the last stream may open only when the first has ended
            tries.append(stream(triton.address, triton.model, prompts, 64))
    assert all([s.tokens for s in together] == [s.tokens for s in alone] for together in tries)
    assert all(len(s.tokens) == 64 for s in alone)
    assert overlap(tries[-1]), "all stream at the same time"


@pytest.mark.full
def test_a_request_given_up_frees_its_row(tmp_path: Path) -> None:
    from tests.fakes.triton_streams import cancelled_after

    workload = short_trial().workload
    assert isinstance(workload, InferenceWorkload)
    prompt = prompts_of(workload, schedule_of(workload)).cold_start.ids
    written = a_repository(workload, tmp_path)
    with a_triton(written, tmp_path) as triton:
        for _ in range(2 * workload.server.sequences):
            assert cancelled_after(triton.address, triton.model, prompt, tokens=2) == 2
        # Were rows leaked, there would be none left for this one.
        load = schedule_of(workload).phases[0]
        texts = prompts_of(workload, schedule_of(workload)).by_phase[0]
        bodies = [written.body(i, text, int(load.output_tokens[i])) for i, text in enumerate(texts)]
        log = drive(load, bodies, Target(triton.address, written.wire, triton.running), timeout_s=20)
        assert log.errors() == {}


def test_no_server_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tritonserver.TRITONSERVER_VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(TrialFailed, match=r"image_error: .*PLUMBLINE_TRITONSERVER.*missing"):
        measure(short_trial(), tmp_path)


def test_a_backend_that_this_triton_does_not_have(tmp_path: Path) -> None:
    llama = {
        "architecture": "llama",
        "layers": 2,
        "width": 64,
        "heads": 4,
        "kv_heads": 2,
        "feed_forward": 128,
        "vocabulary": 256,
        "context": 128,
    }
    server = {"backend": "vllm", "sequences": 8, "prefix_cache": "off", "client_placement": "same_node"}
    with pytest.raises(TrialFailed, match=r"image_error: .*vllm.*python"):
        measure(short_trial(model=llama, server=server), tmp_path)


def test_a_model_that_does_not_load(tmp_path: Path) -> None:
    trial = short_trial()
    assert isinstance(trial.workload, InferenceWorkload)
    written = a_repository(trial.workload, tmp_path)
    source = written.folder / written.model / "1" / "model.py"
    source.write_text(source.read_text().replace("import torch\n", "import a_module_that_is_missing\n", 1))
    with (
        pytest.raises(TrialFailed, match=r"image_error: .*'a_module_that_is_missing'"),
        a_triton(written, tmp_path),
    ):
        pytest.fail("a server without its model is not ready")


@pytest.mark.full
def test_a_server_that_is_not_ready_in_time(tmp_path: Path) -> None:
    trial = short_trial()
    assert isinstance(trial.workload, InferenceWorkload)
    written = a_repository(trial.workload, tmp_path)
    with (
        pytest.raises(TrialFailed, match=r"timeout: .* 0\.1s"),
        a_triton(written, tmp_path, ready_within_s=0.1),
    ):
        pytest.fail("nothing is ready in a tenth of a second")


@pytest.mark.parametrize("victim", ["server", pytest.param("model", marks=pytest.mark.full)])
def test_killed_while_it_measures(tmp_path: Path, victim: str) -> None:
    killed: list[float] = []

    def kill(phase: str, fraction: float, note: str = "") -> None:
        if phase == "steady" and not killed and note[:1] in set("123456789"):  # some requests have ended
            found = next(p for p in servers() if _command(p)[0].endswith("stub" if victim == "model" else "tritonserver"))
            killed.append(time.monotonic())
            found.kill()

    with pytest.raises(TrialFailed) as caught, ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        inference_trial.measure(short_trial(phases=LONG_STEADY), tmp_path, kill, watch)
    assert time.monotonic() - killed[0] < 40, "far less than the phase"
    assert caught.value.failure_class == "server_error"
    # Triton sometimes crashes when its model process disappears; the trial then records the crash.
    ends = {"server": ["was ended by signal 9"], "model": ["lost its model process", "was ended by signal 6", "was ended by signal 11"]}
    assert any(end in caught.value.detail for end in ends[victim])
    partial = caught.value.partial
    requests = pq.read_table(next(e.path for e in partial.evidence if e.kind == "requests")).to_pylist()
    assert len(requests) == 1200
    assert any(r["status"] == "ok" for r in requests)
    assert any(r["status"] == "not_sent" for r in requests)
    assert {e.kind for e in partial.evidence} == {"schedule", "server_log", "requests"}


@pytest.mark.full
def test_interrupted_while_it_measures(tmp_path: Path) -> None:
    interrupted: list[str] = []

    def interrupt(phase: str) -> None:
        if phase == "steady" and not interrupted:
            interrupted.append(phase)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    trial = short_trial(phases=[{"name": "warmup", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "1s"}, *LONG_STEADY])
    with pytest.raises(TrialFailed) as caught:
        measure(trial, tmp_path, interrupt)
    assert caught.value.failure_class == "interrupted"
    assert any(r.phase == "warmup" for r in caught.value.partial.metrics)


HARNESS = """
import sys
from pathlib import Path
from tests.integration.test_inference import measure, servers, short_trial, LONG_STEADY
def report(phase):
    if phase == "steady":
        print(" ".join(str(p.pid) for p in servers()), flush=True)
measure(short_trial(phases=LONG_STEADY), Path(sys.argv[1]), report)
"""


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_goes_with_its_harness(tmp_path: Path, number: signal.Signals) -> None:
    """A killed harness cleans up nothing: the kernel ends the server, most models see that, and the next start sweeps what is left."""
    repository_root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": search_path(repository_root, repository_root / "include")}
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment)
    assert harness.stdout is not None
    family = [psutil.Process(int(pid)) for pid in harness.stdout.readline().split()]
    assert len(family) == 2, "server and model"
    harness.send_signal(number)
    assert harness.wait(60) == -number
    # Orphans are taken note of by the machine's first process, in a container late or never: a zombie has ended and holds nothing.
    deadline = time.monotonic() + 10
    while any(map(lives, family)) and time.monotonic() < deadline:
        time.sleep(0.05)
    shared_memory.sweep_shared_memory()
    for left in family:
        with contextlib.suppress(psutil.TimeoutExpired):
            left.wait(30)
    assert [p for p in family if lives(p)] == []
    assert not list(shared_memory.SHARED_MEMORY_FOLDER.glob(f"plumbline-*-{harness.pid}-*"))


def test_another_schedule_than_the_planned_one(tmp_path: Path) -> None:
    trial = short_trial().model_copy(update={"schedule_hash": "0" * 64})
    with pytest.raises(TrialFailed, match=f"harness_error: .*{trial.schedule_hash[:8]}"):
        measure(trial, tmp_path)
