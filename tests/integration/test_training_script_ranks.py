"""Training scripts over several ranks and nodes: torchrun's variables, a killed rank, ranks that report nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_training import codes
from tests.integration.test_training_distributed import Node, node, rendezvous
from tests.integration.test_training_faults import evidence, values
from tests.integration.test_training_script import home, run, script, value

from plumbline.harness.measurement import Measurement

__all__ = ["home", "node", "rendezvous"]

TRAIN = """
import json, os, pathlib, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert int(os.environ["LOCAL_RANK"]) < int(os.environ["LOCAL_WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    peer = socket.create_server(place).accept()[0]
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
kept, first = pathlib.Path("out/ckpt.json"), 0
if "--resume" in sys.argv:
    first = json.loads(kept.read_text())
for step in range(first, 1000):
    time.sleep(0.03)
    peer.sendall(b"x")
    if not peer.recv(1):
        sys.exit("lost the other rank")
    PRINT
    if SAVES and (step + 1) % 6 == 0:
        kept.parent.mkdir(exist_ok=True)
        kept.with_suffix(".tmp").write_text(json.dumps(step + 1))
        kept.with_suffix(".tmp").rename(kept)
"""
"""Two ranks that meet in each step, as gradients make them."""
LINE = 'print(f"iter {step}: loss {5 - step / 100:.4f}, time 30ms")'
FIRST = TRAIN.replace("PRINT", f"if rank == 0: {LINE}").replace("SAVES", "rank == 0")
LAST = TRAIN.replace("PRINT", f"if rank == world - 1: {LINE}").replace("SAVES", "rank == 0")
BOTH = TRAIN.replace("PRINT", f"if rank == 0: {LINE}").replace("SAVES", "True")
REPORTER = "from plumbline_report import step as reported\n" + TRAIN.replace("SAVES", "False").replace(
    "PRINT",
    """
    if not os.environ.get("QUIET") or rank == 0:
        with reported(step) as done:
            done.loss = 2.0
""",
)
GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
for step in range(1000):
    dist.all_reduce(total)
    total /= dist.get_world_size()
    if dist.get_rank() == 0:
        print(f"iter {step}: loss {total.item()}, time 1ms")
"""
TWO: dict[str, Any] = {"needs": {"accelerator": "cpu", "count": 2}, "parallelism": {"processes": 2}}
NODES: dict[str, Any] = {"parallelism": {"nodes": 2}}
RESUMES = {"resume_arguments": ["--resume"]}
KILLED: dict[str, Any] = {"fault": {"inject": "rank_kill", "at_step": 9}, "deterministic": True}
RUNS = {"run": list(range(20)), "fault": list(range(9)), "recovery": [6, 7, 8, 9, 10, 11]}


def steps_of(measured: Measurement) -> dict[str, list[int]]:
    """Steps of the only rank that reports any, by run. On a busy machine the kill may come later than the middle of the step."""
    found: dict[str, list[int]] = {}
    for row in evidence(measured, "steps"):
        if row["run"] != "fault" or row["step"] < 9:
            found.setdefault(row["run"], []).append(row["step"])
    return found


@pytest.mark.parametrize("text", [FIRST, pytest.param(LAST, marks=pytest.mark.full)], ids=["the first prints", "the last prints"])
def test_two_ranks_of_which_one_prints_are_killed_and_go_on_with_equal_losses(tmp_path: Path, text: str) -> None:
    measured = run(tmp_path, text, RESUMES, **TWO, **KILLED)
    assert steps_of(measured) == RUNS
    assert "losses_continue_exactly" in measured.guarantees
    assert 0 < (values(measured)["training_goodput"] or 0.0) < 1
    assert not codes(measured) & {"unplanned_restart", "rank_without_reports"}
    assert measured.facts["training.world_size"] == 2


def test_ranks_that_all_report_show_who_lags(tmp_path: Path) -> None:
    measured = run(tmp_path, REPORTER, {"report": {"format": "reporter"}}, **TWO)
    assert {row["rank"] for row in evidence(measured, "steps")} == {0, 1}
    assert value(measured, "straggler_ratio") >= 1
    assert "rank_without_reports" not in codes(measured)


@pytest.mark.fault("a rank of a training script reports nothing", ends="degraded (rank_without_reports)", keeps="the others' steps")
def test_a_rank_that_never_reports(tmp_path: Path) -> None:
    measured = run(tmp_path, REPORTER, {"report": {"format": "reporter"}, "environment": {"QUIET": "1"}}, **TWO)
    assert "rank_without_reports" in codes(measured)
    assert steps_of(measured) == {"run": list(range(20))}


@pytest.mark.full
def test_a_launcher_of_ranks_is_started_once_a_node(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    task = {"command": command, "launches_ranks": True, "checkpoints": None, "resume_arguments": None}
    measured = run(tmp_path, GLOO, task, **TWO)
    assert steps_of(measured) == {"run": list(range(20))}
    assert measured.facts["training.processes"] == 2


@pytest.mark.full
@pytest.mark.fault("a rank of a script killed in a gang of two nodes", ends="valid, with its restart penalty", keeps="equal losses")
def test_two_nodes_with_a_killed_rank(tmp_path: Path, node: Callable[..., Node], rendezvous: str) -> None:
    # Each node saves its own checkpoint; on storage that they share both have it.
    other = node(1, of=script(tmp_path, BOTH, RESUMES, **NODES, **KILLED))
    measured = run(tmp_path, BOTH, RESUMES, **NODES, **KILLED)
    assert other.end()[0] == 0
    assert steps_of(measured) == RUNS
    assert "losses_continue_exactly" in measured.guarantees
    assert measured.facts["training.nodes"] == 2
