"""Which of torch's kernels may be used: for attention, and where the same bits must come out each time."""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager

import torch

from plumbline.harness import image_faults
from plumbline.harness.image_faults import ImageIncomplete
from plumbline.harness.training.precision import Unsupported

_NO_ATTENTION = ("No viable backend for scaled_dot_product_attention", "No available kernel")
_NOT_DETERMINISTIC = "does not have a deterministic implementation"
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


class NotDeterministic(Exception):
    """An operation of this training has no kernel that gives the same bits each time."""


def attention(kernel: str) -> AbstractContextManager[object]:
    """Attention that begins inside is computed by that kernel alone, again in backward too; `auto` leaves the choice to torch."""
    if kernel == "auto":
        return contextlib.nullcontext()
    # Imported here: it takes a while, and most leave the choice to torch.
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kinds = {
        "math": SDPBackend.MATH,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    return sdpa_kernel(kinds[kernel])


def only_deterministic(wanted: bool) -> None:
    """From now on torch uses only kernels that give the same bits each time and raises where it has none. Before the first use of a GPU."""
    if wanted:
        # cuBLAS splits its products as its workspace allows; with several of this fixed size it does so in the same way each time.
        os.environ.setdefault(_WORKSPACE, ":4096:8")
        torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(wanted)


def misfit(error: RuntimeError, attention: str) -> Unsupported | ImageIncomplete | NotDeterministic | None:
    """What was declared that torch had no kernel or no compiler for, if that is what an error of torch says."""
    said = str(error)
    if any(words in said for words in _NO_ATTENTION):
        return Unsupported(f"attention {attention} has no kernel for this model, precision and device; attention auto and math do: {said}")
    if (missing := image_faults.sign(said)) is not None:
        return ImageIncomplete(
            f"the image lacks a kernel or a compiler (compile: true takes a C++ compiler; on a GPU also triton and Python's headers): {missing}"
        )
    if _NOT_DETERMINISTIC in said:
        operation = said.partition(" ")[0]
        return NotDeterministic(f"deterministic is declared, and {operation} has no deterministic kernel here; deterministic: false works")
    return None
