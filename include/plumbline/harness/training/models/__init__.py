"""Models by declared shape and seed: the same seed gives the same weights on every machine. Causal LMs map token ids (batch, sequence) to logits."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from importlib import import_module
from operator import itemgetter
from time import monotonic_ns
from typing import Any, cast

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

_INITIALIZERS = frozenset(
    ("normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "orthogonal_")
)
_OVERWRITTEN = frozenset(("kaiming_uniform_", "uniform_"))
"""PyTorch's own initial values of linear and convolution layers. Every declared architecture draws its own over them."""


class SkipInit(TorchFunctionMode):
    """Inside, these initializers leave a module's parameters as the memory was: drawing those of a large model takes a minute on a CPU.

    Buffers are computed, and tied weights stay tied, which they would not on the meta device.
    """

    def __init__(self, initializers: frozenset[str] = _INITIALIZERS) -> None:
        super().__init__()
        self._initializers = initializers

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        target = args[0] if args else options.get("tensor")
        if isinstance(target, nn.Parameter) and getattr(func, "__name__", "") in self._initializers:
            return target
        return func(*args, **options)


_BUILDERS = {
    "gpt": "plumbline.harness.training.models.gpt:build_gpt",
    "llama": "plumbline.harness.training.models.hugging_face:build_llama",
    "bert": "plumbline.harness.training.models.hugging_face:build_bert",
    "vit": "plumbline.harness.training.models.hugging_face:build_vit",
    "hub": "plumbline.harness.training.models.hugging_face:build_hub_model",
}
"""Architecture → `module:function`, imported when it is needed: `transformers` takes seconds, and gpt needs torch alone."""


def build_model(shape: Mapping[str, Any], *, draws: bool = True) -> nn.Module:
    """The model of a declared shape with weights drawn from its `seed`, fp32, on the CPU; without `draws` its weights are whatever the
    memory held."""
    torch.manual_seed(shape["seed"])
    loads = shape["architecture"] == "hub"  # and draws what the file lacks, by the library's rules
    with nullcontext() if draws and loads else SkipInit(_OVERWRITTEN if draws else _INITIALIZERS):
        module, _, builder = _BUILDERS[shape["architecture"]].partition(":")
        model: nn.Module = getattr(import_module(module), builder)(shape)
    return model


def initial_model(shape: Mapping[str, Any], *, weights: str | None, draws: bool) -> tuple[nn.Module, float | None]:
    """The model as its training begins, fp32, on the CPU, and the seconds that loading its weights took; None if they are not loaded.

    `weights`: a file that `models.__main__` wrote, or the folder of a model of the hub; without one they are drawn, if `draws` says so.
    """
    if weights is None:
        return build_model(shape, draws=draws), None
    if shape["architecture"] == "hub":
        began = monotonic_ns()
        return build_model({**shape, "folder": weights}), (monotonic_ns() - began) / 1e9
    # Imported here: who draws the weights needs no safetensors.
    from safetensors.torch import load_file

    model = build_model(shape, draws=False)
    began = monotonic_ns()
    model.load_state_dict(load_file(weights), assign=True)
    return model, (monotonic_ns() - began) / 1e9


def new_cache(model: nn.Module) -> Any:
    """An empty cache of keys and values, which goes to `model` beside the ids; None if the model has none and must see all ids each time."""
    make = getattr(model, "new_cache", None)
    return None if make is None else make()


def repeated_layers(model: nn.Module) -> Sequence[nn.Module]:
    layers = next(child for child in model.modules() if isinstance(child, nn.ModuleList))
    return cast(Sequence[nn.Module], layers)


def weights_sha256(model: nn.Module) -> str:
    """SHA-256 of all weights, by name: whether two machines start from the same model."""
    return _sha256_of(model.named_parameters())  # a state may leave out the frozen ones


def _sha256_of(weights: Iterable[tuple[str, torch.Tensor]]) -> str:
    summed = hashlib.sha256()
    for name, tensor in sorted(weights, key=itemgetter(0)):
        summed.update(name.encode())
        summed.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return summed.hexdigest()


class InitialWeights:
    """The weights that a training begins with, for their hash: what a model on the CPU leaves there when it moves to a GPU.

    To draw them again takes a minute for a billion. They are hashed in a thread and given up.
    """

    def __init__(self, model: nn.Module) -> None:
        self._weights = [(name, parameter.detach()) for name, parameter in model.named_parameters()]
        self._hash: Future[str] = Future()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to hash them, at the first call."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="initial-weights", daemon=True)
            self._thread.start()

    def sha256(self) -> str:
        self.start()
        return self._hash.result()

    def _run(self) -> None:
        try:
            self._hash.set_result(_sha256_of(self._weights))
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asks for the hash
            self._hash.set_exception(error)
        self._weights.clear()
