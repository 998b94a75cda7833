"""What a declared precision means for the loop."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch


class Unsupported(Exception):
    """This hardware, or this build of torch, cannot do what was declared; the message says what and what would."""


class Precision:
    """fp32: of everything. tf32: fp32 whose matrix products round their factors. bf16, fp16: matrix products beside fp32 weights."""

    def __init__(self, name: str, device: torch.device) -> None:
        """Sets torch up for it; raises Unsupported."""
        self._device = device
        self._kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name)
        if name in ("tf32", "fp16", "fp8") and device.type != "cuda":
            raise Unsupported(f"precision {name} needs a GPU; fp32 and bf16 work on a {device.type}")
        if name == "fp8":
            raise Unsupported("precision fp8 needs the package torchao and a GPU of compute capability 8.9 or higher")
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager[object]:
        """Forward happens inside; backward does not."""
        if self._kind is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, self._kind)
