"""The live state of a training, as nested dictionaries and by the paths of its leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful


class TrainingState:
    """The live state of one rank; of sharded state, its part."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, precision: Stateful, device: torch.device) -> None:
        self.model, self.optimizer, self._precision, self.device = model, optimizer, precision, device

    def taken(self) -> dict[str, Any]:
        """The state as nested dictionaries; tensors are the live ones."""
        generators = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            generators["cuda"] = torch.cuda.get_rng_state(self.device)
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "precision": self._precision.state_dict(),
            "generators": generators,
        }

    def put(self, state: dict[str, Any]) -> None:
        """Go on from a state that `taken` gave, here or in another process."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._precision.load_state_dict(state["precision"])
        torch.set_rng_state(state["generators"]["cpu"].cpu())
        if "cuda" in state["generators"]:
            torch.cuda.set_rng_state(state["generators"]["cuda"].cpu(), self.device)

    def state_after_first_step(self) -> dict[str, Any]:
        """The state with the tensors that the optimizer makes in its first step, so that there is somewhere to load them into.

        Weights stay as they are. Only before the first step.
        """
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        return self.taken()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of model and optimizer by its path, of sharded ones this rank's part: equal tensors mean equal states."""
        state = self.taken()
        tensors = flatten_state({name: state[name] for name in ("model", "optimizer")})
        # A sharded tensor's part is asked for by its method, as its class would have to be imported for `isinstance`.
        return {
            name: getattr(leaf, "to_local", lambda leaf=leaf: leaf)() for name, leaf in tensors.items() if isinstance(leaf, torch.Tensor)
        }

    def fingerprint(self) -> dict[str, tuple[Any, ...]]:
        """Type, shape and checksum of each of `tensors`, and of the generators' states: equal ones mean equal states."""
        tensors = self.tensors() | {f"generators.{name}": state for name, state in self.taken()["generators"].items()}
        return {name: (tensor.dtype, tensor.shape, tensor_checksum(tensor)) for name, tensor in tensors.items()}

    def forget(self) -> None:
        """Free the optimizer's tensors, zero the weights and draw from the generators: as in a new process, nothing of the state is there."""
        self.optimizer.state.clear()
        for tensor in self.tensors().values():
            tensor.zero_()
        for device in {torch.device("cpu"), self.device}:
            torch.rand(1, device=device)


_PIECE_BYTES = 16 << 20
_MIXER, _BITS = 0x9E3779B97F4A7C15 - (1 << 64), (1 << 64) - 1


def tensor_checksum(tensor: torch.Tensor) -> int:
    """A checksum (64 bits) of a tensor's bytes, taken on its device in pieces: against damage and mix-ups, not against intent.

    Words of 32 bits are added up with odd factors that depend on their places, which no changed word and no two swapped ones survive.
    """
    total = 0
    for piece in torch.split(tensor.detach().reshape(-1).contiguous().view(torch.uint8), _PIECE_BYTES):
        words = nn.functional.pad(piece, (0, -len(piece) % 4)).view(torch.int32).to(torch.int64)
        factors = torch.arange(1, 2 * len(words), 2, dtype=torch.int64, device=words.device) * _MIXER
        total = (total * 31 + int((words * factors).sum())) & _BITS
    return total


def flatten_state(part: Any, path: str = "") -> dict[str, Any]:
    """Leaves of nested dictionaries and lists, by path (`optimizer.state.0.exp_avg`)."""
    if isinstance(part, dict):
        items = part.items()
    elif isinstance(part, (list, tuple)):
        items = dict(enumerate(part)).items()
    else:
        return {path: part}
    leaves: dict[str, Any] = {}
    for key, value in items:
        leaves |= flatten_state(value, f"{path}.{key}" if path else str(key))
    return leaves


def replace_leaves(part: Any, leaves: dict[str, Any], path: str = "") -> Any:
    """The nesting with other leaves; KeyError with the path of a missing one."""
    if isinstance(part, dict):
        return {key: replace_leaves(value, leaves, f"{path}.{key}" if path else str(key)) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [replace_leaves(value, leaves, f"{path}.{index}" if path else str(index)) for index, value in enumerate(part)]
    return leaves[path]
