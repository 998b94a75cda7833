"""How a declaration configures torch: precision, optimizer, attention kernel, determinism, compilation, activation checkpointing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from torch import Tensor, nn

from plumbline.harness import image_requirements
from plumbline.harness.image_requirements import ImageIncomplete
from plumbline.harness.training.worker_protocol import ExitCode, WorkerError


def no_gpu_reason() -> str:
    """Why CUDA does not start, in torch's words."""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return str(error).strip().partition("\n")[0]
    return "no device is visible"


def build_optimizer(declared: Mapping[str, Any], parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Over those of the parameters that learn; fused, since the unfused ones spend a step launching small kernels."""
    learning: list[Any] = [{"params": some} for some in _group_by_mesh(parameter for parameter in parameters if parameter.requires_grad)]
    rate, decay = declared["learning_rate"], declared["weight_decay"]
    if declared["name"] == "sgd":
        return torch.optim.SGD(learning, lr=rate, weight_decay=decay, fused=True)
    return torch.optim.AdamW(learning, lr=rate, weight_decay=decay, fused=True)


def clip_gradients(optimizer: torch.optim.Optimizer, limit: float) -> None:
    """Scale all gradients down to a common norm of at most `limit`, over the whole model wherever its parts are."""
    groups: list[list[nn.Parameter]] = [group["params"] for group in optimizer.param_groups]
    norms = [torch.nn.utils.get_total_norm([parameter.grad for parameter in group if parameter.grad is not None]) for group in groups]
    # A sharded norm is summed up over its ranks by its method, as its class would have to be imported for `isinstance`.
    whole = [getattr(norm, "full_tensor", lambda norm=norm: norm)() for norm in norms]
    total = whole[0] if len(whole) == 1 else torch.linalg.vector_norm(torch.stack(whole))
    for group in groups:
        torch.nn.utils.clip_grads_with_norm_(group, limit, total)


def _group_by_mesh(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters by the ranks that they are spread over: one fused kernel takes those of one kind."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(groups.values())


def set_learning_rate(optimizer: torch.optim.Optimizer, declared: Mapping[str, Any], step: int) -> None:
    """The learning rate of a step (counted from 0): rises linearly over the declared warm-up."""
    warmup = declared["warmup"]
    if step > warmup:
        return
    for group in optimizer.param_groups:
        group["lr"] = declared["learning_rate"] * min(1.0, (step + 1) / warmup) if warmup else declared["learning_rate"]


_FP8_CAPABILITY = (8, 9)
_TF32_CAPABILITY = (8, 0)
_FP8_MULTIPLE = 16


class UnsupportedOption(WorkerError):
    """The declared kind of hardware cannot do what the workload declares; the message says what and what would."""

    exit_code = ExitCode.UNSUPPORTED


class Precision:
    """fp32: of everything. tf32: fp32 whose matrix products round their factors. bf16, fp16: matrix products beside fp32 weights.

    fp8: as bf16, and the products of the layers' linear modules in fp8, scaled tensor by tensor.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        """Sets torch up for it; raises UnsupportedOption, or ImageIncomplete without a package that it needs."""
        capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
        reason = unsupported_reason(name, device.type, capability)
        if reason is not None:
            raise UnsupportedOption(reason)
        if name == "fp8" and find_spec("torchao") is None:
            raise ImageIncomplete("precision fp8 needs the package torchao, which the image lacks; bf16 works without it")
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
        return optimizer_step(self._scaler, optimizer, clip)

    def state_dict(self) -> dict[str, Any]:
        """State to save so that training continues in the same way; empty without any."""
        return self._scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            self._scaler.load_state_dict(state)


def optimizer_step(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, clip: float | None) -> Tensor | None:
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


def unsupported_reason(name: str, device: str, capability: tuple[int, int] | None) -> str | None:
    """Why a precision is not possible on a device of this type and CUDA compute capability, and what would be; None if it is."""
    if device != "cuda":
        return None if name in ("fp32", "bf16") else f"precision {name} needs a GPU; fp32 and bf16 work on a {device}"
    assert capability is not None
    version = ".".join(map(str, capability))
    if name in ("tf32", "bf16") and capability < _TF32_CAPABILITY:
        return f"precision {name} needs compute capability 8.0 (NVIDIA A100) or higher and this GPU has {version}; fp32 and fp16 work here"
    if name == "fp8" and capability < _FP8_CAPABILITY:
        return (
            f"precision fp8 needs compute capability 8.9 (NVIDIA L4, H100) or higher and this GPU has {version}; "
            f"{'bf16' if capability >= _TF32_CAPABILITY else 'fp16'} works here"
        )
    return None


def _fits_fp8(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and module.in_features % _FP8_MULTIPLE == 0 and module.out_features % _FP8_MULTIPLE == 0


_NO_ATTENTION_KERNEL = ("No viable backend for scaled_dot_product_attention", "No available kernel")
_NOT_DETERMINISTIC = "does not have a deterministic implementation"
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


class NotDeterministic(WorkerError):
    """An operation of this training has no kernel that gives the same bits each time."""

    exit_code = ExitCode.NOT_DETERMINISTIC


def attention_kernel(kernel: str) -> AbstractContextManager[object]:
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


def set_deterministic(deterministic: bool) -> None:
    """Make torch use only kernels that give the same bits each time; it raises where it has none. Before the first use of a GPU."""
    if deterministic:
        # cuBLAS splits its products as its workspace allows; with several of this fixed size it does so in the same way each time.
        os.environ.setdefault(_WORKSPACE, ":4096:8")
        torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(deterministic)


def missing_kernel(error: RuntimeError, attention: str) -> UnsupportedOption | ImageIncomplete | NotDeterministic | None:
    """The declared feature for which an error of torch reports no kernel or compiler; None for another error."""
    message = str(error)
    if any(words in message for words in _NO_ATTENTION_KERNEL):
        return UnsupportedOption(
            f"attention {attention} has no kernel for this model, precision and device; attention auto and math do: {message}"
        )
    if (missing := image_requirements.find_image_fault(message)) is not None:
        return ImageIncomplete(
            f"the image lacks a kernel or a compiler (compile: true takes a C++ compiler; on a GPU also triton and Python's headers): {missing}"
        )
    if _NOT_DETERMINISTIC in message:
        operation = message.partition(" ")[0]
        return NotDeterministic(f"deterministic is declared, and {operation} has no deterministic kernel here; deterministic: false works")
    return None


def checkpoint_activations(layers: Sequence[nn.Module]) -> None:
    """Each layer keeps its input alone and computes its activations again in backward."""
    for layer in layers:
        layer.forward = _checkpointed(layer.forward)


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    # Imported here: most trainings keep their activations.
    from torch.utils.checkpoint import checkpoint

    # A function of its own: the compiler passes over a `partial` of `checkpoint` and compiles nothing.
    def again(*inputs: Any, **options: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False, **options)

    return again


def compile_layers(layers: Sequence[nn.Module], cache: Path) -> CompileTimer:
    """Compile layer by layer, each at its first use: alike layers share their code, which the whole model would not.

    What was compiled is kept in `cache` (unless TORCHINDUCTOR_CACHE_DIR names another folder): the machine's own, which torch would use,
    would make the second trial start faster than the first.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    clock = CompileTimer()
    for layer in layers:
        layer.compile()
    return clock


class CompileTimer:
    """How long the compiler has been at work in this process."""

    def __init__(self) -> None:
        # Imported here: the compiler takes seconds to import.
        from torch._dynamo.callback import callback_handler

        self._began_ns = 0
        self._spent_ns = 0
        # Newer releases pass what is compiled, 2.7 passes nothing.
        callback_handler.register_start_callback(self._start)
        callback_handler.register_end_callback(self._end)

    def _start(self, *_: Any) -> None:
        self._began_ns = monotonic_ns()

    def _end(self, *_: Any) -> None:
        self._spent_ns += monotonic_ns() - self._began_ns

    def taken(self) -> int:
        """Nanoseconds since it was last asked."""
        spent, self._spent_ns = self._spent_ns, 0
        return spent
