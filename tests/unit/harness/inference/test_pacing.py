from __future__ import annotations

import time

from plumbline.harness.inference.pacing import Pacer


async def test_moments_are_never_early_and_typically_exact() -> None:
    late = []
    with Pacer() as pacer:
        began = time.monotonic()
        for i in range(1, 101):
            due = began + i * 0.002
            if time.monotonic() < due:
                await pacer.until(due)
                late.append(time.monotonic() - due)
    assert len(late) > 10
    assert min(late) >= 0
    # A millisecond is what the event loop's own timers would round to.
    assert sorted(late)[len(late) // 4] < 0.001


async def test_waiting_does_not_burn_the_core() -> None:
    with Pacer() as pacer:
        used = time.process_time()
        await pacer.until(time.monotonic() + 0.3)
        assert time.process_time() - used < 0.1


async def test_a_moment_that_has_passed() -> None:
    with Pacer() as pacer:
        began = time.monotonic()
        await pacer.until(began - 10)
        await pacer.until(0.0)
        assert time.monotonic() - began < 1
