"""Kernels by declaration, and errors of torch that say that there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from plumbline.harness.image_requirements import ImageIncomplete
from plumbline.harness.training.worker.torch_setup import NotDeterministic, UnsupportedOption, attention_kernel, missing_kernel


def attend() -> torch.Tensor:
    q = torch.ones(1, 1, 4, 8)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@pytest.mark.parametrize("kernel", ["auto", "math", "flash"])
def test_kernels_of_a_cpu(kernel: str) -> None:
    with attention_kernel(kernel):
        assert attend().shape == (1, 1, 4, 8)


@pytest.mark.parametrize("kernel", ["efficient", "cudnn"])
def test_a_kernel_that_is_not_there_is_named(kernel: str) -> None:
    with attention_kernel(kernel), pytest.raises(RuntimeError) as raised:
        attend()
    found = missing_kernel(raised.value, kernel)
    assert isinstance(found, UnsupportedOption) and f"attention {kernel} has no kernel" in str(found)


def test_an_operation_that_is_not_deterministic_is_named() -> None:
    # As `torch.use_deterministic_algorithms` says it.
    error = RuntimeError("histc_cuda does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'.")
    found = missing_kernel(error, "auto")
    assert isinstance(found, NotDeterministic) and "histc_cuda" in str(found)


@pytest.mark.parametrize(
    "said",
    [
        "No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')",
        "Failed to find C compiler. Please specify via CC environment variable.",
        "Cannot find a working triton installation. Either the package is not installed or it is too old.",
        "/tmp/main.c:5:10: fatal error: Python.h: No such file or directory",
        "CUDA error: no kernel image is available for execution on the device",
    ],
)
def test_what_the_image_lacks_is_no_fault_of_the_hardware(said: str) -> None:
    found = missing_kernel(RuntimeError(f"first line\n{said}\nlast line"), "auto")
    assert isinstance(found, ImageIncomplete) and said in str(found)


def test_other_errors_are_not_explained_away() -> None:
    assert missing_kernel(RuntimeError("size mismatch"), "flash") is None


@pytest.mark.parametrize("wanted", [True, pytest.param(False, marks=pytest.mark.full)])
def test_determinism_is_asked_of_torch_and_of_cublas(wanted: bool) -> None:
    program = "import os, torch; from plumbline.harness.training.worker import torch_setup; torch_setup.set_deterministic({}); " + (
        "print(torch.are_deterministic_algorithms_enabled(), 'CUBLAS_WORKSPACE_CONFIG' in os.environ)"
    )
    done = subprocess.run([sys.executable, "-c", program.format(wanted)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(wanted)] * 2
