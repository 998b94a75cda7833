from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from plumbline.loadclient.schedule_cursor import Pacer

pytestmark = pytest.mark.integration  # real processes and the real clock


class Waiter:
    """Waits for a pacer's calls one after the other."""

    def __init__(self) -> None:
        self.pacer = Pacer(asyncio.get_running_loop(), self.due)
        self.calls: asyncio.Queue[float] = asyncio.Queue()

    def due(self) -> None:
        self.calls.put_nowait(time.monotonic())

    async def until(self, moment: float) -> float:
        self.pacer.set(moment)
        return await self.calls.get()


@pytest.fixture
async def waiter() -> AsyncIterator[Waiter]:
    waiter = Waiter()
    with waiter.pacer:
        yield waiter


async def test_moments_are_never_early_and_typically_exact(waiter: Waiter) -> None:
    """A machine only adds, so that the best of a few attempts shows the pacer."""
    best = float("inf")
    for _ in range(20):
        late = []
        for _ in range(20):
            due = time.monotonic() + 0.002
            late.append(await waiter.until(due) - due)
        assert min(late) >= 0
        best = min(best, sorted(late)[len(late) // 4])
        if best < 0.001:  # a millisecond is what the event loop's own timers would round to
            break
    assert best < 0.001


async def test_waiting_does_not_burn_the_core(waiter: Waiter) -> None:
    used = time.process_time()
    await waiter.until(time.monotonic() + 0.3)
    assert time.process_time() - used < 0.1


async def test_a_moment_that_has_passed_comes_at_once_but_not_from_within(waiter: Waiter) -> None:
    began = time.monotonic()
    waiter.pacer.set(began - 10)
    assert waiter.calls.empty()
    await waiter.calls.get()
    await waiter.until(0.0)
    assert time.monotonic() - began < 9


async def test_a_moment_that_is_set_again_comes_once(waiter: Waiter) -> None:
    began = time.monotonic()
    waiter.pacer.set(began + 60)
    assert await waiter.until(began + 0.05) - began < 30
    await asyncio.sleep(0.05)
    assert waiter.calls.empty()
