"""What a checkpoint holds: everything without which the next step would be another one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from plumbline.harness.training.precision import Precision


class TrainingState:
    """The live state of one rank; of sharded state, its part."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, precision: Precision, device: torch.device) -> None:
        self.model, self.optimizer, self._precision, self._device = model, optimizer, precision, device

    def taken(self) -> dict[str, Any]:
        """The state as nested dictionaries; tensors are the live ones."""
        generators = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            generators["cuda"] = torch.cuda.get_rng_state(self._device)
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
            torch.cuda.set_rng_state(state["generators"]["cuda"].cpu(), self._device)

    def primed(self) -> dict[str, Any]:
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
        """Every tensor of model and optimizer by where it stands, of sharded ones this rank's part: two states are one if these are equal."""
        state = self.taken()
        kept = leaves_of({name: state[name] for name in ("model", "optimizer")})
        # A sharded tensor's part is asked for by its method, as its class would have to be imported for `isinstance`.
        return {name: getattr(leaf, "to_local", lambda leaf=leaf: leaf)() for name, leaf in kept.items() if isinstance(leaf, torch.Tensor)}


def leaves_of(part: Any, path: str = "") -> dict[str, Any]:
    """What nested dictionaries and lists hold, by its path (`optimizer.state.0.exp_avg`)."""
    if isinstance(part, dict):
        items = part.items()
    elif isinstance(part, (list, tuple)):
        items = dict(enumerate(part)).items()
    else:
        return {path: part}
    found: dict[str, Any] = {}
    for key, value in items:
        found |= leaves_of(value, f"{path}.{key}" if path else str(key))
    return found


def filled(part: Any, leaves: dict[str, Any]) -> Any:
    """The same nesting with other leaves. What they do not have is left out: an optimizer has no state of what had no gradient yet."""
    return _filled(part, leaves, "")


def _filled(part: Any, leaves: dict[str, Any], path: str) -> Any:
    if isinstance(part, dict):
        found = {key: _filled(value, leaves, f"{path}.{key}" if path else str(key)) for key, value in part.items()}
        return {key: value for key, value in found.items() if value is not _ABSENT}
    if isinstance(part, (list, tuple)):
        return [_filled(value, leaves, f"{path}.{index}") for index, value in enumerate(part)]
    return leaves.get(path, _ABSENT)


_ABSENT = object()
