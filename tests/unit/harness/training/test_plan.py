"""Which steps each run does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.declarations.training import TrainingWorkload
from plumbline.harness.training.dataset import DataFile
from plumbline.harness.training.place import Address, Place
from plumbline.harness.training.plan import FaultPlan, Group, Hold, WorkerSpec, fault_plan, for_rank, orders, resumed, undisturbed

Tiny = Callable[..., TrainingWorkload]
DATA = DataFile(Path("/data/x.tokens"), "<u2", 4096, "a" * 64)


@pytest.mark.parametrize(
    ("at_step", "expected"),
    [(4, FaultPlan(4, 4, 8)), (6, FaultPlan(4, 6, 8)), (7, FaultPlan(4, 7, 8)), (8, FaultPlan(8, 8, 12)), (11, FaultPlan(8, 11, 12))],
)
def test_the_faulted_stretch_is_the_checkpoint_interval_of_the_kill(tiny: Tiny, at_step: int, expected: FaultPlan) -> None:
    assert fault_plan(tiny(fault={"inject": "rank_kill", "at_step": at_step})) == expected


def test_the_last_interval_ends_with_the_trial(tiny: Tiny) -> None:
    assert fault_plan(tiny(checkpoint={"every": 5}, fault={"inject": "rank_kill", "at_step": 11})) == FaultPlan(10, 11, 12)


def test_no_fault_no_stretch(tiny: Tiny) -> None:
    assert fault_plan(tiny(fault=None)) is None
    assert undisturbed(tiny(fault=None), DATA, Path("/w"), device="cpu").checkpoint_retain == ()


def test_the_first_run_does_everything_and_keeps_what_the_fault_needs(tiny: Tiny) -> None:
    spec = undisturbed(tiny(), DATA, Path("/w"), device="cpu")
    assert (spec.until, spec.resume, spec.closing, spec.hold, spec.checkpoint_retain) == (12, False, True, None, (4,))


def test_the_faulted_runs_resume_apart_and_only_the_first_is_held(tiny: Tiny) -> None:
    first = undisturbed(tiny(), DATA, Path("/w"), device="cpu")
    stretch = fault_plan(tiny())
    assert stretch is not None
    fault, recovery = (resumed(first, stretch, Path("/w"), name) for name in ("fault", "recovery"))
    assert (fault.hold, recovery.hold) == (Hold(6), None)
    assert fault.checkpoint_folder == recovery.checkpoint_folder != first.checkpoint_folder
    assert len({first.log, fault.log, recovery.log}) == 3
    assert all(spec.resume and not spec.closing and spec.until == 8 for spec in (fault, recovery))


def test_orders_survive_the_file(tiny: Tiny, tmp_path: Path) -> None:
    spec = undisturbed(tiny(), DATA, tmp_path, device="cpu")
    spec.write(tmp_path / "spec.json")
    assert WorkerSpec.read(tmp_path / "spec.json") == spec


def test_alone_a_process_has_no_group(tiny: Tiny) -> None:
    spec = undisturbed(tiny(), DATA, Path("/w"), device="cpu")
    assert for_rank(spec, Place(0, 1, 1, None), 0, 2, None, "run") == replace(spec, threads=2)


def test_the_first_rank_writes_and_closes_and_the_last_of_the_first_node_is_the_one_that_holds(tiny: Tiny) -> None:
    store = Address("gang-0.gang", 29401)
    specs = {}
    for node in range(2):
        place = Place(node, 2, 2, Address("gang-0.gang", 29400))
        for name in ("run", "fault"):
            order = orders(name, tiny(), DATA, Path("/w"), device="cpu")
            specs |= {(name, rank): for_rank(order, place, rank, 1, store, name) for rank in place.ranks}
    assert sorted(specs) == [(name, rank) for name in ("fault", "run") for rank in range(4)]
    assert [rank for (_, rank), spec in specs.items() if spec.closing] == [0]
    assert [key for key, spec in specs.items() if spec.hold is not None] == [("fault", 1)]
    assert len({spec.log for spec in specs.values()}) == 8
    third = specs["run", 3].group
    assert third == Group(3, 4, 1, 2, "gloo", "gang-0.gang", 29401, "run")


def test_gpus_talk_by_nccl(tiny: Tiny) -> None:
    order = orders("recovery", tiny(), DATA, Path("/w"), device="cuda")
    group = for_rank(order, Place(0, 1, 2, None), 1, 1, Address("127.0.0.1", 1), "recovery").group
    assert group is not None and group.backend == "nccl"


def test_orders_of_a_rank_survive_the_file(tiny: Tiny, tmp_path: Path) -> None:
    order = orders("run", tiny(), DATA, tmp_path, device="cpu")
    spec = for_rank(order, Place(0, 1, 2, None), 1, 1, Address("127.0.0.1", 1), "run")
    spec.write(tmp_path / "spec.json")
    assert WorkerSpec.read(tmp_path / "spec.json") == spec
