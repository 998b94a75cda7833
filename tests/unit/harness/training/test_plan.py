"""Which steps each run does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.training.dataset import DataFile
from plumbline.harness.training.plan import FaultPlan, plan_fault, rank_spec, run_spec, undisturbed_spec
from plumbline.harness.training.worker_protocol import HoldPoint, ProcessGroupSpec, RunKind, WorkerSpec, attempt_name, run_kind

Tiny = Callable[..., TrainingWorkload]
DATA = DataFile(Path("/data/x.tokens"), "<u2", 4096, "a" * 64)


@pytest.mark.parametrize(
    ("at_step", "expected"),
    [(4, FaultPlan(4, 4, 8)), (6, FaultPlan(4, 6, 8)), (7, FaultPlan(4, 7, 8)), (8, FaultPlan(8, 8, 12)), (11, FaultPlan(8, 11, 12))],
)
def test_the_faulted_stretch_is_the_checkpoint_interval_of_the_kill(tiny: Tiny, at_step: int, expected: FaultPlan) -> None:
    assert plan_fault(tiny(fault={"inject": "rank_kill", "at_step": at_step})) == expected


def test_the_last_interval_ends_with_the_trial(tiny: Tiny) -> None:
    assert plan_fault(tiny(checkpoint={"every": 5}, fault={"inject": "rank_kill", "at_step": 11})) == FaultPlan(10, 11, 12)


def test_no_fault_no_stretch(tiny: Tiny) -> None:
    assert plan_fault(tiny(fault=None)) is None
    assert undisturbed_spec(tiny(fault=None), DATA, Path("/w"), device="cpu").checkpoint_retain == ()


def test_the_first_run_does_everything_and_keeps_what_the_fault_needs(tiny: Tiny) -> None:
    spec = undisturbed_spec(tiny(), DATA, Path("/w"), device="cpu")
    assert (spec.until, spec.resume, spec.closing, spec.hold, spec.checkpoint_retain) == (12, False, True, None, (4,))


def test_the_faulted_runs_resume_apart_and_only_the_first_is_held(tiny: Tiny) -> None:
    first = undisturbed_spec(tiny(), DATA, Path("/w"), device="cpu")
    fault, again, recovery = (
        run_spec(name, tiny(), DATA, Path("/w"), device="cpu", resume=True) for name in ("fault", "fault-2", "recovery")
    )
    assert (fault.hold, again.hold, recovery.hold) == (HoldPoint(6), HoldPoint(6), None)
    assert fault.checkpoint_folder == again.checkpoint_folder == recovery.checkpoint_folder != first.checkpoint_folder
    assert len({first.log, fault.log, again.log, recovery.log}) == 4
    assert all(spec.resume and not spec.closing and spec.until == 8 for spec in (fault, again, recovery))


def test_a_run_that_broke_off_goes_on_where_it_was(tiny: Tiny) -> None:
    first = run_spec("run", tiny(), DATA, Path("/w"), device="cpu", resume=False)
    again = run_spec("run-2", tiny(), DATA, Path("/w"), device="cpu", resume=True)
    assert first == undisturbed_spec(tiny(), DATA, Path("/w"), device="cpu")
    assert again == replace(first, resume=True, log="/w/run-2.steps.jsonl")


@pytest.mark.parametrize(("kind", "attempt", "name"), [("run", 1, "run"), ("fault", 2, "fault-2"), ("recovery", 12, "recovery-12")])
def test_names_of_attempts(kind: RunKind, attempt: int, name: str) -> None:
    assert (attempt_name(kind, attempt), run_kind(name)) == (name, kind)


def test_what_is_no_name_of_a_run() -> None:
    with pytest.raises(ValueError, match=r"^'walk-2' .*recovery$"):
        run_kind("walk-2")


def test_a_kill_in_a_checkpoint_holds_the_rank_that_writes_it(tiny: Tiny) -> None:
    workload = tiny(fault={"inject": "checkpoint_kill", "at_step": 7, "times": 3})
    assert plan_fault(workload) == FaultPlan(4, 7, 8, "checkpoint", 3)
    order = run_spec("fault", workload, DATA, Path("/w"), device="cpu", resume=True)
    place = Topology(0, 1, 2, None)
    specs = [rank_spec(order, place, rank, 1, Address("127.0.0.1", 1), "fault") for rank in place.ranks]
    assert [spec.hold for spec in specs] == [HoldPoint(7, "checkpoint"), None]


def test_orders_survive_the_file(tiny: Tiny, tmp_path: Path) -> None:
    spec = undisturbed_spec(tiny(), DATA, tmp_path, device="cpu")
    spec.write(tmp_path / "spec.json")
    assert WorkerSpec.read(tmp_path / "spec.json") == spec


def test_alone_a_process_has_no_group(tiny: Tiny) -> None:
    spec = undisturbed_spec(tiny(), DATA, Path("/w"), device="cpu")
    assert rank_spec(spec, Topology(0, 1, 1, None), 0, 2, None, "run") == replace(spec, threads=2)


def test_the_first_rank_writes_and_closes_and_the_last_of_the_first_node_is_the_one_that_holds(tiny: Tiny) -> None:
    store = Address("gang-0.gang", 29401)
    specs = {}
    for node in range(2):
        place = Topology(node, 2, 2, Address("gang-0.gang", 29400))
        for name in ("run", "fault"):
            order = run_spec(name, tiny(), DATA, Path("/w"), device="cpu", resume=True)
            specs |= {(name, rank): rank_spec(order, place, rank, 1, store, name) for rank in place.ranks}
    assert sorted(specs) == [(name, rank) for name in ("fault", "run") for rank in range(4)]
    assert [rank for (_, rank), spec in specs.items() if spec.closing] == [0]
    assert [key for key, spec in specs.items() if spec.hold is not None] == [("fault", 1)]
    assert len({spec.log for spec in specs.values()}) == 8
    third = specs["run", 3].group
    assert third == ProcessGroupSpec(3, 4, 1, 2, "gloo", "gang-0.gang", 29401, "run")


def test_gpus_talk_by_nccl(tiny: Tiny) -> None:
    order = run_spec("recovery", tiny(), DATA, Path("/w"), device="cuda", resume=True)
    group = rank_spec(order, Topology(0, 1, 2, None), 1, 1, Address("127.0.0.1", 1), "recovery").group
    assert group is not None and group.backend == "nccl"


def test_orders_of_a_rank_survive_the_file(tiny: Tiny, tmp_path: Path) -> None:
    order = run_spec("run", tiny(), DATA, tmp_path, device="cpu", resume=True)
    spec = rank_spec(order, Topology(0, 1, 2, None), 1, 1, Address("127.0.0.1", 1), "run")
    spec.write(tmp_path / "spec.json")
    assert WorkerSpec.read(tmp_path / "spec.json") == spec


def test_the_first_rank_of_a_run_from_scratch_draws_the_weights(tiny: Tiny) -> None:
    spec = undisturbed_spec(tiny(), DATA, Path("/work"), device="cpu")
    ranks = [rank_spec(spec, Topology(0, 1, 2, None), rank, 1, Address("127.0.0.1", 1), "run") for rank in range(2)]
    assert spec.draws and [rank.draws for rank in ranks] == [True, False]
    assert not any(replace(each, resume=True).draws for each in (spec, *ranks))
