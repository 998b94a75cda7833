"""The rate that a training's own is held against."""

from __future__ import annotations

import time

import pytest
import torch

from plumbline.harness.training.worker.device import matmul_flops, peak_memory


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.full)])
def test_a_cpu_has_a_rate_at_the_precisions_that_it_trains_in(precision: str) -> None:
    began = time.monotonic()
    rate = matmul_flops(torch.device("cpu"), precision)
    took = time.monotonic() - began
    assert rate > 2 * 1024**3 / took, "the best single product is faster than all of them together"
    assert torch.get_float32_matmul_precision() == "highest", "what the training set is left as it was"


def test_peak_memory_of_a_cpu_is_what_was_resident_at_most() -> None:
    before = peak_memory(torch.device("cpu"))["used"]
    held = torch.ones(64 * 2**20, dtype=torch.uint8)
    del held
    after = peak_memory(torch.device("cpu"))["used"]
    assert after >= before > 2**20
