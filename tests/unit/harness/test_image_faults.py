"""Which output of a program names something that its image lacks."""

from __future__ import annotations

import pytest

from plumbline.harness.image_requirements import find_image_fault


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'torchao'",
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    ],
)
def test_what_is_missing_is_named_by_its_own_line(line: str) -> None:
    output = f"Traceback (most recent call last):\n  {line}\nnote: see the manual\n"
    assert find_image_fault(output) == line


@pytest.mark.parametrize("said", ["", "CUDA error: out of memory", "RuntimeError: NCCL error: unhandled system error", "no such file"])
def test_other_failures_are_not_the_images(said: str) -> None:
    assert find_image_fault(said) is None


def test_a_warning_of_triton_is_no_reason() -> None:
    warned = 'W1127 16:14:08.344766 3533 pinned_memory_manager.cc:273] "no pinned pool: CUDA driver version is insufficient for CUDA runtime version"'
    assert find_image_fault(f"{warned}\nE1127 16:14:09.1 3533 server.cc:1] no model") is None
    assert find_image_fault(warned.replace("W1127", "E1127")) is not None
