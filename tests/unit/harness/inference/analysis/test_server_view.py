from __future__ import annotations

from dataclasses import replace

from plumbline.harness.inference.analysis.metrics import ServerCounters

EARLIER = ServerCounters(10, 1, 0.5, 0.1, 2.0, 0.2, 4, 10, None, 100, 5_000)
LATER = ServerCounters(30, 2, 0.75, 0.3, 5.0, 0.3, 9, 30, 60, 120, 7_000)


def test_the_difference_is_what_happened_between() -> None:
    between = LATER - EARLIER
    assert (between.succeeded, between.failed, between.executions, between.inferences) == (20, 1, 5, 20)
    assert (between.queued_s, between.compute_infer_s) == (0.25, 3.0)
    assert (between.cache_hits, between.cache_misses) == (60, 20), "a counter that was not there yet began at zero"
    assert between.gpu_memory_bytes == 7_000, "memory in use is no total"
    assert between.batch_size == 4
    assert between.cache_hit_ratio == 0.75


def test_what_was_not_said_is_absent_and_not_zero() -> None:
    silent = replace(LATER, cache_hits=None, cache_misses=None, gpu_memory_bytes=None, executions=0, inferences=0)
    assert silent.cache_hit_ratio is None
    assert silent.batch_size is None
    assert (silent - replace(silent)).cache_hits is None
    assert replace(LATER, cache_misses=None).cache_hit_ratio is None, "half of a ratio"
    assert replace(LATER, cache_hits=0, cache_misses=0).cache_hit_ratio is None, "nothing was looked up"
    assert replace(LATER, cache_hits=0, cache_misses=8).cache_hit_ratio == 0


def test_two_servers_add_up() -> None:
    both = LATER + replace(EARLIER, gpu_memory_bytes=None)
    assert (both.succeeded, both.failed, both.executions, both.inferences) == (40, 3, 13, 40)
    assert (both.queued_s, both.compute_infer_s) == (1.25, 7.0)
    assert (both.cache_hits, both.cache_misses, both.gpu_memory_bytes) == (60, 220, 7_000)
    assert (replace(EARLIER) + EARLIER).cache_hits is None, "what no server says is absent"
