"""Batches in turn, and ahead by a thread: the same ones, never too far, errors where they are asked for."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from plumbline.harness.training.worker.device import InlineFeed, PrefetchingFeed

CPU = torch.device("cpu")
Samples = tuple[torch.Tensor, ...]


def numbered(step: int) -> Samples:
    return (torch.tensor([step]),)


def ahead(batch: object, steps: range) -> PrefetchingFeed:
    return PrefetchingFeed(batch, steps, CPU, pin=torch.clone)  # type: ignore[arg-type]


def test_both_give_the_same_batches_in_order() -> None:
    for feed in (InlineFeed(numbered, range(3, 9)), ahead(numbered, range(3, 9))):
        with feed:
            assert [int(feed.moved(feed.next())[0]) for _ in range(6)] == [3, 4, 5, 6, 7, 8]


def test_no_batch_is_made_before_it_is_asked_for_in_turn() -> None:
    made: list[int] = []
    feed = InlineFeed(lambda step: (made.append(step), numbered(step))[1], range(5))  # type: ignore[func-returns-value]
    feed.next()
    assert made == [0]


def test_the_thread_stays_a_little_ahead_and_ends_with_the_block() -> None:
    made: list[int] = []
    full = threading.Event()

    def batch(step: int) -> Samples:
        made.append(step)
        if len(made) == 4:
            full.set()
        return numbered(step)

    with ahead(batch, range(1000)) as feed:
        feed.next()
        assert full.wait(30)  # two wait, one is held by the thread, one was taken
        time.sleep(0.3)
        assert len(made) == 4
    assert not any(thread.name == "batches" for thread in threading.enumerate())


def test_what_making_a_batch_raised_comes_with_it() -> None:
    def batch(step: int) -> Samples:
        if step == 1:
            raise ValueError("damaged")
        return numbered(step)

    with ahead(batch, range(3)) as feed:
        feed.next()
        with pytest.raises(ValueError, match="damaged"):
            feed.next()
