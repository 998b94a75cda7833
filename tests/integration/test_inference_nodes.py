"""A served model on several nodes: harnesses on loopback, and an engine that answers only while all of its ranks are there."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests import checkpoints
from tests.data.repositories.golden import LLAMA
from tests.fakes import gang_engine
from tests.fakes.trials import local_provider
from tests.integration.test_inference import short_trial

from plumbline.analysis.document_sample import held_seconds
from plumbline.declarations import Trial
from plumbline.harness import engine_python
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch.collect import collect
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.results import ResultDocument, ResultStore

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each node needs a core"),
]
VLLM = os.environ.get("PLUMBLINE_VLLM_PYTHON", "")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, gang_engine.__file__]
RANKS = ["--nnodes", "{nodes}", "--node-rank", "{node_rank}", "--leader", "{leader_address}:{leader_port}", "--pipeline", "{pipeline}"]
SERVER: dict[str, Any] = {
    "backend": "openai",
    "nodes": 2,
    "parallel": {"pipeline": 2},
    "command": [*PROGRAM, *RANKS, "--port", "{port}", "--name", "{served_name}"],
    "worker_command": [*PROGRAM, *RANKS],
}
LONG = [{"name": "steady", "arrivals": {"constant": {"rate": "15/s"}}, "duration": "60s"}]


def on_two_nodes(server: dict[str, Any] = SERVER, **changed: Any) -> Trial:
    planned = short_trial(
        model=LLAMA | {"vocabulary": 256, "context": 256}, needs={"accelerator": "cpu", "count": 1}, server=server, **changed
    )
    cpus = sorted(os.sched_getaffinity(0))[:2]
    return planned.model_copy(update={"provider": local_provider(cpus=cpus, nodes=2)})


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ResultDocument]]:
    """Launches a trial and collects its document; then nothing of it is left."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    store = ResultStore((tmp_path / "results").as_uri())

    def launch(trial: Trial, strike: Callable[[], object] | None = None) -> ResultDocument:
        pending = [] if strike is None else [strike]

        def follow(line: ProgressLine) -> None:
            if line.phase == "steady" and pending:
                pending.pop()()

        ProcessLauncher().launch(trial, store, follow)
        return collect(store, trial.campaign_id, trial.trial_id)[-1]

    yield launch
    assert [*engines(), *harnesses()] == []
    assert list((tmp_path / "home" / "work").glob("*")) == []


def _running(*words: str) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if all(any(word in part for part in command) for word in words):
            found.append(process)
    return found


def engines() -> list[psutil.Process]:
    return _running("gang_engine.py")


def harnesses() -> list[psutil.Process]:
    return _running("plumbline.harness", "run")


def kill_rank(rank: int) -> None:
    ranks = [p for p in engines() if p.cmdline()[0] == sys.executable and p.cmdline()[1].endswith("gang_engine.py")]
    (process,) = [p for p in ranks if p.cmdline()[p.cmdline().index("--node-rank") + 1] == str(rank)]
    process.send_signal(signal.SIGKILL)


def kill_harness_of_node_1() -> None:
    (process,) = [p for p in harnesses() if p.environ().get("PLUMBLINE_NODE_RANK") == "1" and "reaper.py" not in " ".join(p.cmdline())]
    process.send_signal(signal.SIGKILL)


def test_two_nodes_serve_one_model_and_leave_nothing(launched: Callable[..., ResultDocument]) -> None:
    document = launched(on_two_nodes())
    assert document.validity.failure_class is None, document.validity
    assert document.value("error_rate", phase="steady") == 0
    assert document.value("peer_round_trip_time", phase="environment")
    assert document.environment is not None
    facts = document.environment.facts
    assert (facts["server.nodes"], json.loads(str(facts["engine.parallel"]))["pipeline"]) == (2, 2)
    assert "{node_rank}" in str(facts["engine.worker_command"])
    assert [item.kind for item in document.evidence].count("server_log") == 2
    assert document.launch is not None
    events = document.launch.events
    held = max(e.monotonic_s or 0 for e in events) - min(e.monotonic_s or 1e18 for e in events if e.name != "queued")
    assert held_seconds(document) == pytest.approx(2 * held)


@pytest.mark.full
@pytest.mark.fault("one node's part of a server ends, or its harness", ends="server_error, interrupted", keeps="the logs of all nodes")
@pytest.mark.parametrize(
    ("strike", "failure_class", "begins"),
    [
        (lambda: kill_rank(1), "server_error", r"node 1 \(loopback-1\): python"),
        # Rank 1 ends because of it, and may be seen first; so may the requests that failed.
        (lambda: kill_rank(0), "server_error", r"(node 1 .*; )?node 0: .*was ended by signal 9"),
        (kill_harness_of_node_1, "interrupted", r"node 1 \(loopback-1\) disconnected"),
    ],
)
def test_a_lost_part_fails_the_trial_by_its_node(
    launched: Callable[..., ResultDocument], strike: Callable[[], object], failure_class: str, begins: str
) -> None:
    document = launched(on_two_nodes(phases=LONG), strike)
    (reason, *_) = document.validity.reasons
    assert document.validity.failure_class == failure_class, reason
    assert re.match(begins, reason.detail), reason


@pytest.mark.full
def test_a_node_without_the_engine_fails_the_trial(launched: Callable[..., ResultDocument]) -> None:
    command = ["no-such-engine", *RANKS]
    document = launched(on_two_nodes(SERVER | {"worker_command": command}))
    assert document.validity.failure_class == "image_error"
    assert document.validity.reasons[0].detail.startswith("node 1 (loopback-1): server.worker_command: no program no-such-engine")


@pytest.mark.full
def test_a_killed_server_is_started_again_on_all_nodes(launched: Callable[..., ResultDocument]) -> None:
    steady = {"name": "steady", "arrivals": {"constant": {"rate": "15/s"}}, "duration": "4s"}
    fault = {"name": "fault", "arrivals": {"poisson": {"rate": "15/s"}}, "duration": "8s", "inject": "server_kill", "at": "1s"}
    document = launched(on_two_nodes(phases=[steady, fault]))
    assert document.validity.failure_class is None, document.validity
    # It can be back before the next request is due, so that none is lost.
    assert document.value("time_to_ready", phase="fault") is not None
    assert document.value("time_to_recover", phase="fault") is not None
    assert document.value("error_rate", phase="recovery") == 0


@pytest.mark.full
def test_a_cold_cache_restarts_the_parts_of_all_nodes(launched: Callable[..., ResultDocument]) -> None:
    document = launched(on_two_nodes(SERVER | {"prefix_cache": "cold"}))
    assert document.validity.failure_class is None, document.validity
    assert document.value("error_rate", phase="steady") == 0


@pytest.mark.full
def test_energy_and_health_are_those_of_all_nodes(tmp_path: Path) -> None:
    planned = on_two_nodes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        rendezvous = f"127.0.0.1:{server.getsockname()[1]}"
    (tmp_path / "trial.json").write_text(planned.model_dump_json())
    results = (tmp_path / "results").as_uri()
    harnesses = []
    for rank, gpus in enumerate(({"FAKE_WATTS": "500"}, {"FAKE_WATTS": "200 150", "FAKE_NEW_ERRORS": "2"})):
        of_node = {"PLUMBLINE_HOME": str(tmp_path / f"node{rank}"), "PLUMBLINE_NODE_RANK": str(rank), "PLUMBLINE_RENDEZVOUS": rendezvous}
        path = os.pathsep.join([str(ROOT / "tests" / "fakes" / "driver"), str(ROOT / "include")])
        command = [sys.executable, "-m", "plumbline.harness", "run", "--trial", str(tmp_path / "trial.json"), "--out", results]
        harnesses.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path, **gpus, **of_node}, stdout=subprocess.DEVNULL))
    assert [each.wait(200) for each in harnesses] == [0, 0]
    store = ResultStore(results)
    document = store.document(store.folder(planned))
    power, energy = (
        next(row for row in document.metrics if (row.metric, row.phase) == (name, "steady"))
        for name in ("gpu_power", "energy_per_output_token")
    )
    at = {event.name: event.monotonic_s or 0.0 for event in document.timeline}
    assert power.value == pytest.approx(850.0, rel=0.02)
    assert energy.value and energy.value * energy.n / 850.0 == pytest.approx(at["steady_ended"] - at["steady_started"], rel=0.15)
    rows = {(row.node, row.gpu): row.new for row in document.gpu_health if row.counter == "ecc_uncorrected_volatile"}
    assert rows == {(0, 0): 0, (1, 0): 2, (1, 1): 2}


SERVE = ["vllm", "serve", "{model}", "--nnodes", "{nodes}", "--node-rank", "{node_rank}", "--master-addr", "{leader_address}"]
SERVE += ["--master-port", "{leader_port}", "--tensor-parallel-size", "{tensor}", "--distributed-executor-backend", "mp", "--enforce-eager"]
SERVE += ["--max-model-len", "{context}", "--max-num-seqs", "8", "--gpu-memory-utilization", "0.2"]
BY_VLLM: dict[str, Any] = {
    "backend": "openai",
    "nodes": 2,
    "sequences": 8,
    "ready_timeout": "10min",
    "parallel": {"tensor": 2},
    "command": [*SERVE, "--host", "{host}", "--port", "{port}", "--served-model-name", "{served_name}"],
    "worker_command": [*SERVE, "--headless"],
}


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not VLLM, reason="PLUMBLINE_VLLM_PYTHON is not set; CONTRIBUTING says how to get a vLLM for CPUs")
@pytest.mark.parametrize("killed", [False, True])
def test_vllm_serves_on_two_nodes(
    launched: Callable[..., ResultDocument], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setenv(engine_python.VARIABLE, VLLM)
    folder = checkpoints.llama(tmp_path / "llama", num_key_value_heads=2)
    load: dict[str, Any] = {"arrivals": {"constant": {"rate": "0.5/s"}}, "duration": "60s" if killed else "10s"}
    planned = short_trial(
        model={"source": "folder", "path": str(folder), "context": 128, "vocabulary": 512},
        needs={"accelerator": "cpu", "count": 1},
        server=BY_VLLM,
        phases=[{"name": "steady", **load}],
        request_timeout="180s",  # the first answer compiles
        requests={"input_tokens": {"constant": 8}, "output_tokens": {"constant": 4}, "seed": 7},
    )
    provider = local_provider(cpus=sorted(os.sched_getaffinity(0))[:2], nodes=2, memory="16GiB", timeout="20min")
    document = launched(planned.model_copy(update={"provider": provider}), kill_vllm_of_node_1 if killed else None)
    if killed:
        assert document.validity.failure_class == "server_error"
        assert document.validity.reasons[0].detail.startswith("node 1 (loopback-1): vllm ")
        return
    assert document.validity.failure_class is None, document.validity
    assert document.value("error_rate", phase="steady") == 0
    assert document.environment is not None
    facts = document.environment.facts
    assert (facts["engine.name"], facts["server.nodes"]) == ("vllm", 2)
    assert str(facts["node1.engine.vllm"]).startswith(str(facts["engine.version"]).split("+")[0])


def kill_vllm_of_node_1() -> None:
    (process,) = (p for p in _running("vllm", "--headless") if "parent_guard" not in " ".join(p.cmdline()))
    process.send_signal(signal.SIGKILL)
