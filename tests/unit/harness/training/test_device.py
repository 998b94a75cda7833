"""The rate that a training's own is held against."""

from __future__ import annotations

import time

import pytest
import torch

from plumbline.harness.training.device import matmul_flops


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_cpu_has_a_rate_at_the_precisions_that_it_trains_in(precision: str) -> None:
    began = time.monotonic()
    rate = matmul_flops(torch.device("cpu"), precision)
    took = time.monotonic() - began
    assert rate > 2 * 1024**3 / took, "the best single product is faster than all of them together"
    assert torch.get_float32_matmul_precision() == "highest", "what the training set is left as it was"
