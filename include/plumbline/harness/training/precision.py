"""What a declared precision means for the loop: how forward computes, and how a loss becomes a step of the optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from plumbline.harness.image_faults import ImageIncomplete
from plumbline.harness.training.optimizers import clip_gradients

_FP8_CAPABILITY = (8, 9)
_TF32_CAPABILITY = (8, 0)
_FP8_MULTIPLE = 16


class Unsupported(Exception):
    """The declared kind of hardware cannot do what the workload declares; the message says what and what would."""


class Precision:
    """fp32: of everything. tf32: fp32 whose matrix products round their factors. bf16, fp16: matrix products beside fp32 weights.

    fp8: as bf16, and the products of the layers' linear modules in fp8, scaled tensor by tensor.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        """Sets torch up for it; raises Unsupported, or ImageIncomplete without a package that it needs."""
        capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
        reason = obstacle(name, device.type, capability)
        if reason is not None:
            raise Unsupported(reason)
        if name == "fp8" and find_spec("torchao") is None:
            raise ImageIncomplete("precision fp8 needs the package torchao, which the image has not; bf16 works without it")
        self._device = device
        self._name = name
        self._kind = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp16": torch.float16}.get(name)
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        self._scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")

    def convert(self, model: nn.Module, layers: Iterable[nn.Module]) -> None:
        """Put the linear modules of the layers that fp8 can take in its hands; names and parameters stay as they are."""
        if self._name != "fp8":
            return
        try:
            from torchao.float8 import convert_to_float8_training  # type: ignore[import-not-found]
        except (ImportError, AttributeError, OSError, RuntimeError) as error:  # what a torchao that was made for another torch raises
            raise ImageIncomplete(
                f"precision fp8 needs a torchao that fits torch {torch.__version__}: {type(error).__name__}: {error}; bf16 works without it"
            ) from error

        inside = {id(module) for layer in layers for module in layer.modules()}
        convert_to_float8_training(model, module_filter_fn=lambda module, _: id(module) in inside and _fits_fp8(module))

    def autocast(self) -> AbstractContextManager[object]:
        """Forward happens inside; backward does not."""
        if self._kind is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, self._kind)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a micro-batch's loss to those that are there."""
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def update(self, optimizer: torch.optim.Optimizer, clip: float | None) -> Tensor | None:
        """See `stepped`."""
        return stepped(self._scaler, optimizer, clip)

    def state_dict(self) -> dict[str, Any]:
        """What must be saved so that training goes on in the same way; empty where there is nothing."""
        return self._scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state:
            self._scaler.load_state_dict(state)


def stepped(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, clip: float | None) -> Tensor | None:
    """One step of the optimizer on gradients that `scaler` scaled, their norm bounded by `clip`. Whether it was skipped because one of
    them had overflowed (scalar, on the device); None where that never happens."""
    # The scaler's public way to its factor waits for the device; this one gives the tensor, which `update` changes in place.
    factor = scaler._get_scale_async() if scaler.is_enabled() else None
    before = None if factor is None else factor.clone()
    if clip is not None:
        scaler.unscale_(optimizer)
        clip_gradients(optimizer, clip)
    scaler.step(optimizer)
    scaler.update()
    return None if factor is None or before is None else factor < before


def obstacle(name: str, device: str, capability: tuple[int, int] | None) -> str | None:
    """Why a precision is not possible on a device of this type and CUDA compute capability, and what would be; None if it is."""
    if device != "cuda":
        return None if name in ("fp32", "bf16") else f"precision {name} needs a GPU; fp32 and bf16 work on a {device}"
    assert capability is not None
    shown = ".".join(map(str, capability))
    if name in ("tf32", "bf16") and capability < _TF32_CAPABILITY:
        return f"precision {name} needs compute capability 8.0 (NVIDIA A100) or higher and this GPU has {shown}; fp32 and fp16 work here"
    if name == "fp8" and capability < _FP8_CAPABILITY:
        return (
            f"precision fp8 needs compute capability 8.9 (NVIDIA L4, H100) or higher and this GPU has {shown}; "
            f"{'bf16' if capability >= _TF32_CAPABILITY else 'fp16'} works here"
        )
    return None


def _fits_fp8(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and module.in_features % _FP8_MULTIPLE == 0 and module.out_features % _FP8_MULTIPLE == 0
