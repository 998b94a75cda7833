"""Two real tritonservers at once (`replicas: fill`) on two cores: one load, one result, each server on a core of its own."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.fakes.trials import declared
from tests.integration.test_inference import a_repository, a_triton, measure, nothing_is_left, short_trial

from plumbline.declarations import Trial
from plumbline.harness.inference.server.under_test import all_running
from plumbline.harness.measurement import TrialFailed

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two servers, each pinned to a core of its own, need two cores"),
]
__all__ = ["nothing_is_left"]

STEADY = {"name": "steady", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "2s"}
SWEEP = {"name": "sweep", "search": {"goodput": "50%", "between": ["10/s", "20/s"], "probe": "1s", "at_most": 3}}


def two_servers(*phases: dict[str, Any]) -> Trial:
    """A short trial on the shipped provider with two cores, whose workload fills it."""
    trial = short_trial(replicas="fill", phases=list(phases))
    return trial.model_copy(update={"provider": declared().providers["local-2core"]})


def servers() -> list[psutil.Process]:
    """The tritonservers of this process, without their model processes."""
    return [p for p in psutil.Process().children(recursive=True) if p.name() == "tritonserver"]


@pytest.mark.full  # tests/unit/loadclient/test_load_generator.py: each second request goes to the second server
def test_both_servers_share_the_load_and_one_result(tmp_path: Path) -> None:
    cores: list[list[int]] = []

    def look(phase: str) -> None:
        if phase == "steady" and not cores:
            cores.extend(p.cpu_affinity() for p in servers())

    result = measure(two_servers(STEADY, SWEEP), tmp_path, look)

    assert sorted(map(len, cores)) == [1, 1] and cores[0] != cores[1], "two servers, each on a core of its own"
    assert result.facts["server.replicas"] == 2
    assert result.facts["server.cpus"] == "; ".join(str(core) for core in sorted(core for each in cores for core in each))
    rows = {(r.phase, r.metric, r.statistic): r for r in result.metrics}
    assert rows["steady", "offered_rate", "value"].value == 10, "the rate is of both together"
    assert rows["steady", "error_rate", "value"].value == 0
    assert rows["steady", "time_to_first_token", "p50"].n == 20, "latencies are pooled"
    assert rows["sweep", "highest_sustained_rate", "value"].n >= 1
    assert not [j for j in result.judgements if j.reason.code == "counts_differ"], "the counters of both add up to what the client saw"
    seen = {t.signal: t for t in result.telemetry if t.phase == "steady"}
    rates = [seen[f"replica{k}_request_throughput"] for k in (0, 1)]
    assert [rate.n for rate in rates] == [10, 10]
    assert sum(rate.mean for rate in rates) == pytest.approx(rows["steady", "request_throughput", "value"].value)
    assert {"replica0_server_pending_requests", "replica1_server_pending_requests"} <= set(seen)
    (requests,) = (e for e in result.evidence if e.kind == "requests")
    steady = pq.read_table(requests.path).filter(pc.field("phase") == "steady")
    assert steady["replica"].to_pylist() == [number % 2 for number in steady["number"].to_pylist()]
    logs = {e.path.name: e.path.read_text() for e in result.evidence if e.kind == "server_log"}
    assert set(logs) == {"server-0.log", "server-1.log"} and all("tritonserver" in text for text in logs.values())


@pytest.mark.full
@pytest.mark.fault("one of several servers is killed", ends="server_error, with the replica", keeps="the requests of all servers")
def test_the_end_of_one_server_ends_the_trial_and_names_it(tmp_path: Path) -> None:
    ended: list[int] = []

    def kill(phase: str) -> None:
        if phase == "steady" and not ended:
            (second,) = [p for p in servers() if p.cpu_affinity() == [max(os.sched_getaffinity(0))]]
            ended.append(second.pid)
            os.kill(second.pid, signal.SIGKILL)

    with pytest.raises(TrialFailed) as caught:
        measure(two_servers({**STEADY, "duration": "60s"}), tmp_path, kill)
    assert caught.value.failure_class == "server_error"
    assert "replica 1" in caught.value.detail and "signal 9" in caught.value.detail
    assert "replica 0" not in caught.value.detail
    assert "requests" in {e.kind for e in caught.value.partial.evidence}


@pytest.mark.fault("one of several servers does not start", ends="server_error, with the replica", keeps="the logs of all servers")
def test_a_server_that_does_not_start_ends_the_others_start(tmp_path: Path) -> None:
    written = a_repository(short_trial().workload, tmp_path)
    nowhere = tmp_path / "nowhere"
    good, bad = a_triton(written, tmp_path, name="server-0"), a_triton(written, tmp_path, name="server-1")
    bad.repository = nowhere
    with pytest.raises(TrialFailed, match="replica 1") as caught, all_running([good, bad]):
        pytest.fail("a server without a model came up")
    assert caught.value.failure_class == "server_error"
    assert good.log.exists() and bad.log.exists()


@pytest.mark.fault("a signal while several servers start", ends="interrupted", keeps="no process and no shared memory")
def test_an_interrupt_while_servers_start_leaves_none_behind(tmp_path: Path) -> None:
    written = a_repository(short_trial().workload, tmp_path)
    both = [a_triton(written, tmp_path, name=f"server-{k}") for k in (0, 1)]

    def interrupt() -> None:
        while len(servers()) < 2:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    waiting = threading.Thread(target=interrupt, daemon=True)
    waiting.start()
    with pytest.raises(KeyboardInterrupt), all_running(both):
        pytest.fail("the servers came up before the interrupt")
    waiting.join()
    assert servers() == []
