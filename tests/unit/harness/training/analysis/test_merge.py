"""Steps of all ranks as steps of the job."""

from __future__ import annotations

import pytest

from plumbline.harness.training.analysis.records import max_over_ranks, merge_ranks, straggler_stats
from plumbline.harness.training.worker_protocol import StageName, Step


def a_step(number: int, end_s: float, step_s: float, loss: float = 4.0, sync: float = 0.0) -> Step:
    stages: dict[StageName, float] = {
        "data_wait": 0.1 * step_s,
        "forward": 0.2 * step_s,
        "backward": 0.6 * step_s - sync,
        "optimizer": 0.1 * step_s,
        "gradient_sync": sync,
    }
    return Step(number, end_s - step_s, end_s, stages, loss)


def test_a_step_is_the_time_between_two_ends_of_it_on_the_first_ranks_clock() -> None:
    # The clock of rank 1's node is 1000 s ahead.
    ours = [a_step(0, 10.0, 0.5, loss=4.0), a_step(1, 10.4, 0.4, loss=3.0, sync=0.2)]
    theirs = [a_step(0, 1010.0, 0.3, loss=5.0), a_step(1, 1010.45, 0.45, loss=3.5, sync=0.1)]
    first, second = merge_ranks({1: theirs, 0: ours})
    assert (first.step_s, first.end_s, first.loss) == pytest.approx((0.5, 10.0, 4.5))
    assert (second.step_s, second.end_s, second.loss) == pytest.approx((0.4, 10.4, 3.25))
    assert second.stages["gradient_sync"] == 0.1, "the stages are those of the rank that was waited for"


def test_ranks_that_are_slow_in_turns_do_not_make_the_job_slower_than_its_wall_time() -> None:
    # Each rank's step ends late every other time, by 0.1 s: the longest of the two is 0.6 s in each step, and 10 steps pass in 5 s.
    def rank(late: int) -> list[Step]:
        ends = [0.5 * (i + 1) + (0.1 if i % 2 == late else 0.0) for i in range(10)]
        return [a_step(i, end, end - before) for i, (before, end) in enumerate(zip([0.0, *ends], ends, strict=False))]

    steps = merge_ranks({0: rank(0), 1: rank(1)})
    assert sum(step.step_s for step in steps) == pytest.approx(steps[-1].end_s - steps[0].start_s)


def test_a_step_that_one_rank_had_not_written_down_is_not_done() -> None:
    ours = [a_step(i, 10.0 + i, 0.5) for i in range(4, 7)]
    assert [step.step for step in merge_ranks({0: ours, 1: ours[:2]})] == [4, 5]
    assert merge_ranks({0: ours, 1: []}) == []


def test_the_mean_does_not_depend_on_who_reported_first() -> None:
    losses = (0.1, 0.2, 0.3, 1e17, -1e17)
    ranks = {rank: [a_step(0, 1.0, 0.1, loss=loss)] for rank, loss in enumerate(losses)}
    assert merge_ranks(ranks)[0].loss == merge_ranks(dict(reversed(ranks.items())))[0].loss


def test_the_rank_that_holds_the_others_up_is_found_although_all_steps_take_the_same_time() -> None:
    waits = {0: 0.2, 1: 0.0, 2: 0.2, 3: 0.15}
    ranks = {rank: [a_step(i, 1.0 + i, 0.5, sync=wait) for i in range(10)] for rank, wait in waits.items()}
    found = straggler_stats(ranks, set(range(2, 10)))
    assert found is not None
    assert (found.rank, found.same, found.n) == (1, 1.0, 8)
    assert found.ratio == pytest.approx(0.5 / 0.325)


def test_even_ranks_take_turns() -> None:
    ranks = {rank: [a_step(i, 1.0 + i, 0.51 if i % 2 == rank else 0.5) for i in range(10)] for rank in (0, 1)}
    found = straggler_stats(ranks, set(range(10)))
    assert found is not None and found.same == 0.5 and found.ratio == pytest.approx(1.0)


def test_one_rank_has_nobody_to_be_compared_with() -> None:
    alone = {0: [a_step(0, 1.0, 0.5)]}
    assert straggler_stats(alone, {0}) is None
    assert straggler_stats({}, {0}) is None
    assert straggler_stats({0: alone[0], 1: alone[0]}, {7}) is None


def test_the_rank_with_the_most_speaks_for_all_and_what_one_cannot_tell_is_absent() -> None:
    assert max_over_ranks([{"used": 3, "reserved": 9}, {"used": 5, "reserved": 6}]) == {"used": 5, "reserved": 9}
    assert max_over_ranks([{"used": 3}, {}]) == {} == max_over_ranks([])
