"""Estimates of our own training loop rest on what its workers do."""

from __future__ import annotations

from plumbline.harness.training.worker_protocol import VERIFIED_LOADS
from plumbline.kinds.training import LOADS


def test_an_estimate_counts_each_load_of_the_newest_checkpoint() -> None:
    assert LOADS == VERIFIED_LOADS
