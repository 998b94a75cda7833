"""Training over several ranks and nodes: real processes, gloo, loopback; each node is a harness of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from tests.fakes.quick_python import search_path
from tests.fakes.trials import cluster_provider
from tests.integration.test_training import ENDLESS, ROOT, TINY, all_end, codes, run, trains, trial, workers

from plumbline.declarations import Trial
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.harness.probes.inter_node import COLLECTIVES
from plumbline.harness.training.worker_protocol import STAGES
from plumbline.results import ResultStore

FAULT = {"inject": "rank_kill", "at_step": 10}
WIDE = TINY["model"] | {"width": 128, "vocabulary": 2048}
"""More than one bucket of gradients."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of its own; and no test leaves a process behind."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    yield
    assert workers() == []


@pytest.fixture
def rendezvous(monkeypatch: pytest.MonkeyPatch) -> str:
    """A free address for node 0, also in the environment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("PLUMBLINE_RENDEZVOUS", address)
    return address


class Node:
    """A harness as a pod of a gang would start it."""

    def __init__(self, folder: Path, rank: int, gpus: Mapping[str, str] | None = None, of: Trial | None = None, **changed: Any) -> None:
        """`gpus`: variables of a node with GPUs, see `fakes.driver`. `of`: a trial instead of the tiny workload's."""
        (folder / "trial.json").write_text((of or trial(**changed)).model_dump_json())
        self.results = (folder / "results").as_uri()
        self.errors = folder / f"node{rank}.err"
        with self.errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "plumbline.harness", "run", "--trial", str(folder / "trial.json"), "--out", self.results],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={
                    **os.environ,
                    "PYTHONPATH": search_path(*([ROOT / "tests" / "fakes" / "driver"] if gpus else []), ROOT / "include"),
                    **(gpus or {}),
                    "PLUMBLINE_HOME": str(folder / f"node{rank}"),
                    "PLUMBLINE_NODE_RANK": str(rank),
                    "PLUMBLINE_POD_NAME": f"gang-{rank}",
                },
                cwd=ROOT,
            )

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said."""
        return self.process.wait(200), self.errors.read_text()

    def ranks(self) -> list[psutil.Process]:
        """The training processes it runs."""
        try:
            return [p for p in psutil.Process(self.process.pid).children(recursive=True) if trains(p)]
        except psutil.Error:
            return []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Starts harnesses; whatever is left of them is ended."""
    started: list[Node] = []

    def start(rank: int, gpus: Mapping[str, str] | None = None, of: Trial | None = None, **changed: Any) -> Node:
        started.append(Node(tmp_path, rank, gpus, of, **changed))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def once(condition: Callable[[], Any], action: Callable[[], object]) -> None:
    """Do something, in another thread, as soon as something is so."""

    def wait() -> None:
        while True:
            with suppress(psutil.Error):  # a process that ended between being listed and being looked at
                if condition():
                    break
            time.sleep(0.05)
        action()

    threading.Thread(target=wait, daemon=True).start()


def stepping(work: Path) -> bool:
    """Whether rank 0 of a harness that works somewhere in this folder has done a step."""
    return any(b'"step"' in log.read_bytes() for log in work.rglob("run.steps.jsonl"))


def steps_of(measured: Measurement) -> list[dict[str, Any]]:
    return pq.read_table(measured.evidence[0].path).to_pylist()  # type: ignore[no-any-return]


def values(measured: Measurement) -> dict[tuple[str, str, str], float | None]:
    return {(row.phase, row.metric, row.statistic): row.value for row in measured.metrics}


@pytest.fixture(scope="module", params=[pytest.param(count, marks=pytest.mark.full) for count in (2, 3)])
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    """Ranks on one node, one of them killed. Three: the first number whose sums depend on the order of adding."""
    count = request.param
    folder = tmp_path_factory.mktemp("together")
    os.environ["PLUMBLINE_HOME"] = str(folder / "home")
    return run(folder, needs={"accelerator": "cpu", "count": count}, parallelism={"processes": count}, model=WIDE, fault=FAULT)


def count_of(measured: Measurement) -> int:
    return int(str(measured.facts["training.world_size"]))


def test_a_killed_rank_restarts_all_of_them_and_the_losses_continue_to_the_bit(together: Measurement) -> None:
    assert set(together.guarantees) == {"checkpoint_restored_exactly", "losses_continue_exactly"}
    assert not codes(together) & {"losses_diverge_after_resume", "checkpoint_not_restored", "checkpoint_damaged"}
    value = values(together)
    parts = [value["recovery", f"restart_{name}_time", "value"] for name in ("detect", "launch", "recompute")]
    whole = sum(part for part in parts if part) + (value["recovery", "checkpoint_load_time", "median"] or 0)
    assert value["recovery", "restart_penalty", "value"] == pytest.approx(whole)


def test_every_rank_does_every_step_on_data_of_its_own(together: Measurement) -> None:
    count = count_of(together)
    rows = [row for row in steps_of(together) if row["run"] == "run"]
    losses = {rank: [row["loss"] for row in rows if row["rank"] == rank] for rank in range(count)}
    assert [len(found) for found in losses.values()] == [20] * count
    assert len(set(map(tuple, losses.values()))) == count
    last = sum(losses[rank][-1] for rank in range(count)) / count
    assert values(together)["steady", "final_loss", "value"] == pytest.approx(last)


def test_rates_count_all_ranks_and_a_step_lasts_until_all_have_done_it(together: Measurement) -> None:
    value = values(together)
    steady = [row for row in steps_of(together) if row["phase"] == "steady"]
    times = [row["step_s"] for row in steady if row["rank"] == 0]
    assert value["steady", "step_time", "median"] == pytest.approx(sorted(times)[8])
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(count_of(together) * 4 * 2 * 16 / sorted(times)[8])
    sync = next(stage for stage in together.stages if stage.stage == "gradient_sync")
    assert 0 < sync.total_s < sum(times)
    assert all(sum(row[f"{stage}_s"] or 0.0 for stage in STAGES) <= row["step_s"] * 1.0001 for row in steady)


@pytest.mark.full
def test_tokens_a_second_of_a_job_are_its_tokens_over_wall_time(tmp_path: Path) -> None:
    job = {"needs": {"accelerator": "cpu", "count": 2}, "parallelism": {"processes": 2}, "model": WIDE}
    measured = run(tmp_path, **job, steps={"discard": 3, "measure": 97}, checkpoint={"every": 25, "keep": 1})
    rows = [row for row in steps_of(measured) if row["phase"] == "steady" and row["rank"] == 0]
    pause = sum((row["checkpoint_s"] or 0.0) + (row["checksum_s"] or 0.0) for row in rows[:-1])
    wall = rows[-1]["start_s"] + rows[-1]["step_s"] - rows[0]["start_s"] - pause
    assert pause > 0, "at least 30 steps are steady, so a checkpoint lies between them"
    assert values(measured)["steady", "tokens_per_second", "mean"] == pytest.approx(2 * 4 * 2 * 16 * len(rows) / wall, rel=0.005)


def test_the_environment_says_how_many_trained_together(together: Measurement) -> None:
    count = count_of(together)
    facts = {key: value for key, value in together.facts.items() if key.startswith("training.")}
    assert facts == {"training.world_size": count, "training.nodes": 1, "training.processes": count, "training.backend": "gloo"}
    assert count == len({row["rank"] for row in steps_of(together)})
    cores = len(os.sched_getaffinity(0))
    assert together.facts["torch.threads"] == max(cores // count, 1)


def test_ranks_of_one_node_divide_its_cores(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    seen: list[tuple[int, ...]] = []
    once(
        lambda: len(workers()) == 2 and all(p.cpu_times().user > 0.5 for p in workers()),
        lambda: (seen.extend(tuple(p.cpu_affinity()) for p in workers()), [p.kill() for p in workers()]),
    )
    with pytest.raises(TrialFailed):
        run(tmp_path, needs={"accelerator": "cpu", "count": 2}, parallelism={"processes": 2}, restarts=0, **ENDLESS)
    half = len(cores) // 2
    assert sorted(seen) == [tuple(cores[:half]), tuple(cores[half : 2 * half])]


@pytest.mark.full
def test_two_nodes_make_one_document_and_both_end_well(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    job = {"parallelism": {"nodes": 2}, "fault": FAULT}
    other, first = node(1, **job), node(0, **job)
    assert first.end()[0] == 0
    code, said = other.end()
    assert code == 0, said
    assert "recovery: started rank" in said
    store = ResultStore(first.results)
    folder = store.folder(trial(**job))
    document = store.document(folder)
    assert document.validity.status != "failed"
    assert document.environment is not None and document.environment.facts["training.nodes"] == 2
    probed = {row.metric: row.value for row in document.metrics if row.phase == "environment"}
    assert probed["peer_round_trip_time"] and probed["peer_bandwidth"]
    collectives = [f"inter_node_{name}_{kind}_bandwidth" for name in COLLECTIVES for kind in ("bus", "algorithm")]
    assert all(probed[metric] for metric in ["all_reduce_bus_bandwidth", *collectives]), [
        row for row in document.metrics if row.metric in collectives
    ]
    assert document.environment.facts["network.inter_node_transport"] == "gloo over TCP"
    assert "losses_continue_exactly" in document.reproducibility.guarantees
    (steps,) = [item for item in document.evidence if item.kind == "steps"]
    ranks = pq.read_table(tmp_path / "results" / folder / steps.uri)["rank"].to_pylist()
    assert ranks.count(0) == ranks.count(1) > 20
    assert list((tmp_path / "node1" / "work").iterdir()) == []


@pytest.mark.full
@pytest.mark.fault("a GPU of another node makes new errors", ends="degraded: gpu_ecc_uncorrected", keeps="energy and counters of all nodes")
def test_energy_and_health_are_those_of_all_nodes(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    job = {"parallelism": {"nodes": 2}, "steps": {"discard": 3, "measure": 60}}
    other, first = node(1, {"FAKE_WATTS": "200 150", "FAKE_NEW_ERRORS": "2"}, **job), node(0, {"FAKE_WATTS": "500"}, **job)
    assert first.end()[0] == 0, first.end()[1]
    assert other.end()[0] == 0
    store = ResultStore(first.results)
    document = store.document(store.folder(trial(**job)))
    value = {row.metric: row.value for row in document.metrics if (row.phase, row.statistic) in {("steady", "mean"), ("steady", "median")}}
    assert value["gpu_power"] == pytest.approx(850.0, rel=0.02)
    speed = next(row.value for row in document.metrics if (row.metric, row.phase) == ("tokens_per_second", "steady"))
    assert speed and value["energy_per_trained_token"] == pytest.approx(850.0 / speed, rel=0.02)
    rows = {(row.node, row.gpu): row.new for row in document.gpu_health if row.counter == "ecc_uncorrected_volatile"}
    assert rows == {(0, 0): 0, (1, 0): 2, (1, 1): 2}
    assert document.validity.status != "valid"
    assert "gpu_ecc_uncorrected" in {reason.code for reason in document.validity.reasons}


def failing(folder: Path, **changed: Any) -> TrialFailed:
    """Node 0 of two, in this process; the other node must be there, and the trial must fail."""
    with pytest.raises(TrialFailed) as caught:
        run(folder, parallelism={"nodes": 2}, **changed)
    return caught.value


@pytest.mark.full
def test_a_killed_node_interrupts_the_trial_and_says_which_one(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    other = node(1, parallelism={"nodes": 2}, **ENDLESS)
    once(lambda: stepping(tmp_path / "work"), lambda: other.process.kill())
    failure = failing(tmp_path, **ENDLESS)
    assert failure.failure_class == "interrupted"
    assert "node 1" in failure.detail and "gang-1" in failure.detail


@pytest.mark.full
def test_a_node_that_is_asked_to_stop_says_so(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    other = node(1, parallelism={"nodes": 2}, **ENDLESS)
    once(lambda: stepping(tmp_path / "work"), lambda: other.process.send_signal(signal.SIGTERM))
    failure = failing(tmp_path, **ENDLESS)
    assert failure.failure_class == "interrupted"
    assert all(named in failure.detail for named in ("node 1", "gang-1", "SIGTERM"))
    code, said = other.end()
    assert code == 3 and "SIGTERM" in said


@pytest.mark.full
def test_a_rank_killed_on_another_node_is_told_to_node_0(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    other = node(1, parallelism={"nodes": 2}, restarts=0, **ENDLESS)
    once(lambda: stepping(tmp_path / "work"), lambda: other.ranks()[0].kill())
    failure = failing(tmp_path, restarts=0, **ENDLESS)
    assert failure.failure_class == "interrupted"
    assert all(named in failure.detail for named in ("node 1", "gang-1", "rank 1", "SIGKILL"))
    assert other.end()[0] == 3


@pytest.mark.full
def test_a_rank_killed_on_another_node_is_started_again_with_all_others(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    job = {"parallelism": {"nodes": 2}, "steps": {"discard": 3, "measure": 300}, "checkpoint": {"every": 60}}
    other = node(1, **job)
    once(lambda: stepping(tmp_path / "work"), lambda: other.ranks()[0].kill())
    measured = run(tmp_path, **job)
    assert {row["run"] for row in steps_of(measured) if row["rank"] == 1} == {"run", "run-2"}
    assert "unplanned_restart" in codes(measured) and "losses_continue_exactly" in measured.guarantees
    assert other.end()[0] == 0


@pytest.mark.full
def test_a_node_obeys_several_attempts(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    job = {"parallelism": {"nodes": 2}, "fault": {"inject": "group_kill", "at_step": 10, "times": 2}}
    other = node(1, **job)
    measured = run(tmp_path, **job)
    assert {row["run"] for row in steps_of(measured) if row["rank"] == 1} == {"run", "fault", "fault-2", "recovery"}
    assert "losses_continue_exactly" in measured.guarantees and "unplanned_restart" not in codes(measured)
    assert other.end()[0] == 0


@pytest.mark.full
def test_a_node_ends_with_node_0(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    job = {"parallelism": {"nodes": 2}, **ENDLESS}
    first, other = node(0, **job), node(1, **job)
    while not stepping(tmp_path / "node0" / "work"):
        assert first.process.poll() is None and other.process.poll() is None
        time.sleep(0.05)
    left = other.ranks()
    first.process.kill()
    code, said = other.end()
    assert code == 3 and "node 0" in said.splitlines()[-1]
    assert all_end(left)


@pytest.mark.full
def test_a_node_that_never_joins_is_a_launch_that_timed_out(tmp_path: Path, rendezvous: str) -> None:
    failure = failing(tmp_path, where=cluster_provider(schedule_timeout="1s", startup_timeout="1s"))
    assert failure.failure_class == "launch_timeout"
    assert all(named in failure.detail for named in ("node 1", rendezvous, "2 s"))


def test_a_node_without_a_rendezvous_is_unusable(node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_RENDEZVOUS", raising=False)
    code, said = node(1, parallelism={"nodes": 2}).end()
    assert code == 2
    assert said.startswith("PLUMBLINE_RENDEZVOUS") and len(said.splitlines()) == 1


KILLED_WHILE_SAVING = {"inject": "checkpoint_kill", "at_step": 11}


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["fsdp", "ddp"])
def test_a_save_beside_the_training_that_is_cut_off_is_not_resumed_from(tmp_path: Path, strategy: str) -> None:
    measured = run(
        tmp_path,
        needs={"accelerator": "cpu", "count": 2},
        parallelism={"strategy": strategy, "processes": 2},
        checkpoint={"every": 6, "keep": 1, "mode": "async"},
        fault=KILLED_WHILE_SAVING,
    )
    assert set(measured.guarantees) == {"checkpoint_restored_exactly", "losses_continue_exactly"}
    assert [row["step"] for row in steps_of(measured) if row["run"] == "recovery" and row["rank"] == 0] == [6, 7, 8, 9, 10, 11]
    value = values(measured)
    blocking, durable = (value["steady", f"checkpoint_{name}_time", "median"] or 0 for name in ("blocking", "save"))
    assert blocking > 0 and durable > 0
    assert next(stage for stage in measured.stages if stage.stage == "gradient_sync").total_s > 0
    assert measured.facts["checkpoint.page_cache"] in ("dropped", "kept")


@pytest.mark.full
def test_two_nodes_keep_their_parts_and_go_on_from_them(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    job = {"parallelism": {"strategy": "fsdp", "nodes": 2}, "fault": FAULT}
    other = node(1, **job)
    measured = run(tmp_path, **job)
    assert {row["run"] for row in steps_of(measured) if row["rank"] == 1} == {"run", "fault", "recovery"}
    assert set(measured.guarantees) == {"checkpoint_restored_exactly", "losses_continue_exactly"}
    assert other.end()[0] == 0
