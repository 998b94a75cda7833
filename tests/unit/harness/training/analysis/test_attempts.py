"""What an ended attempt cost, and what several attempts make together."""

from __future__ import annotations

import pytest
from tests.golden import Golden
from tests.unit.harness.training.conftest import a_step

from plumbline.harness.training.analysis.records import TrainingIncident, join_attempts, restart_costs
from plumbline.harness.training.worker_protocol import CheckpointSave, RunRecord

FIRST = RunRecord(0.0, steps=[a_step(4, 1.0), a_step(5, 1.1)])


def resumed(launched_s: float, *numbers: int) -> RunRecord:
    """Loads for half a second after one of launch, then does steps of 0.1 s."""
    steps = [a_step(number, launched_s + 1.5 + 0.1 * i) for i, number in enumerate(numbers)]
    return RunRecord(launched_s, at={"load_begin": launched_s + 1.0, "load_end": launched_s + 1.5}, steps=steps)


def killed(run: str, at_s: float, step: int | None = 6) -> TrainingIncident:
    return TrainingIncident(run, "rank_kill", at_s, at_s + 0.2, step)


def test_the_parts_of_one_restart() -> None:
    (cost,) = restart_costs([killed("fault", 2.0)], {"fault": FIRST, "recovery": resumed(2.5, 4, 5, 6, 7)})
    assert (cost.after, cost.complete) == ("recovery", True)
    assert (cost.detect_s, cost.launch_s, cost.load_s, cost.recompute_s) == pytest.approx((0.2, 1.3, 0.5, 0.3))
    assert cost.ended_s == pytest.approx(4.3)


def test_an_attempt_in_vain_costs_until_the_next_kill_and_the_parts_leave_no_gap() -> None:
    runs = {"fault": FIRST, "fault-2": resumed(2.5, 4, 5), "recovery": resumed(5.0, 4, 5, 6)}
    first, second = restart_costs([killed("fault", 2.0), killed("fault-2", 4.25)], runs)
    assert (first.complete, second.complete) == (False, True)
    assert first.ended_s == pytest.approx(4.25) and first.recompute_s == pytest.approx(0.25)
    assert first.penalty_s + second.penalty_s == pytest.approx(6.8 - 2.0)


def test_an_attempt_that_died_while_it_loaded() -> None:
    runs = {"fault": FIRST, "recovery": RunRecord(2.5, at={"load_begin": 3.5}), "recovery-2": resumed(5.0, 4, 5, 6)}
    first, second = restart_costs([killed("fault", 2.0), killed("recovery", 3.75, step=None)], runs)
    assert (first.launch_s, first.load_s, first.recompute_s) == pytest.approx((1.3, 0.25, 0.0))
    assert second.complete and second.ended_s == pytest.approx(6.8), "it had step 6 to make up for, which the first one lost"


def test_what_was_made_up_for_costs_no_more() -> None:
    runs = {"fault": FIRST, "recovery": resumed(2.5, 4, 5, 6, 7), "recovery-2": resumed(9.0, 4, 5, 6, 7, 8)}
    first, second = restart_costs([killed("fault", 2.0), killed("recovery", 8.0, step=8)], runs)
    assert first.ended_s == pytest.approx(4.3) and first.complete
    assert second.ended_s == pytest.approx(11.0) and second.complete


def test_the_last_of_too_many() -> None:
    first, second = restart_costs([killed("fault", 2.0), killed("fault-2", 4.25)], {"fault": FIRST, "fault-2": resumed(2.5, 4, 5)})
    assert first.after == "fault-2"
    assert (second.after, second.penalty_s, second.complete) == (None, pytest.approx(0.2), False)


def test_a_trial_that_ended_while_it_recovered_counts_what_is_known() -> None:
    (cost,) = restart_costs([killed("fault", 2.0)], {"fault": FIRST, "recovery": resumed(2.5, 4, 5)})
    assert not cost.complete and cost.ended_s == pytest.approx(4.2)


def test_a_checkpoint_is_made_up_for_when_it_is_there(golden: Golden) -> None:
    again = resumed(2.5, 4, 5, 6, 7)
    incident = TrainingIncident("fault", "checkpoint_kill", 2.0, 2.2, 7, inside="checkpoint")
    assert not restart_costs([incident], {"fault": FIRST, "recovery": again})[0].complete
    again.saves = [CheckpointSave(8, 4.5, 0.1, 0.1, 1000, closing=False)]
    (cost,) = restart_costs([incident], {"fault": FIRST, "recovery": again})
    assert cost.complete and cost.ended_s == pytest.approx(4.5)
    golden("harness.incident_in_a_checkpoint", str(incident))


def test_an_attempt_from_scratch_loads_nothing() -> None:
    again = RunRecord(3.0, at={"ready": 4.0}, steps=[a_step(0, 4.1), a_step(1, 4.2)])
    (cost,) = restart_costs([TrainingIncident("run", "unplanned", 2.0, 2.0, None, detail="gone")], {"run": RunRecord(0.0), "run-2": again})
    assert (cost.launch_s, cost.load_s, cost.recompute_s) == pytest.approx((2.1, 0.0, 0.1))
    assert cost.complete
    assert str(cost.incident).startswith("unplanned of run ") and str(cost.incident).endswith(": gone")


def test_attempts_joined() -> None:
    one, two = resumed(0.0, 4, 5, 6), resumed(10.0, 5, 6, 7)
    one.by_rank, two.by_rank = {0: one.steps, 1: one.steps[:2]}, {0: two.steps, 1: two.steps}
    one.saves, two.saves = (
        [CheckpointSave(6, 2.0, 0.1, 0.1, 1, False)],
        [CheckpointSave(6, 12.0, 0.1, 0.1, 1, False), CheckpointSave(8, 12.2, 0.1, 0.1, 1, False)],
    )
    one.rejected, two.rejected = ["a"], ["b"]
    whole = join_attempts([one, two])
    assert [(step.step, step.start_s > 10) for step in whole.steps] == [(4, False), (5, True), (6, True), (7, True)]
    assert [step.step for step in whole.by_rank[1]] == [4, 5, 6, 7]
    assert [(save.step, save.end_s) for save in whole.saves] == [(6, 12.0), (8, 12.2)]
    assert (whole.launched_s, whole.rejected) == (0.0, ["a", "b"])
    assert join_attempts([one]) is one
    with pytest.raises(ValueError, match="no attempts"):
        join_attempts([])
