"""The faults that a training workload can declare: one file of `harness/faults` each, of the fault's name, which registers it."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar, TypeVar

_FOLDER = "plumbline.harness.faults"
_REGISTERED: dict[str, FaultKind] = {}


class FaultKind:
    """A kind of fault. `event`: of the timeline, when it struck; `detected`: when that was seen."""

    name: ClassVar[str]
    event: ClassVar[str]
    detected: ClassVar[str] = "rank_death_detected"


K = TypeVar("K", bound=type[FaultKind])


def register(kind: K) -> K:
    """Register a kind of fault under its name. ValueError if another one has it."""
    if kind.name in _REGISTERED and type(_REGISTERED[kind.name]) is not kind:
        raise ValueError(f"a fault is called {kind.name} already")
    _REGISTERED[kind.name] = kind()
    return kind


def fault_kind(name: str) -> FaultKind:
    """The kind of a declared fault, from its file. LookupError without one."""
    if name not in _REGISTERED:
        try:
            import_module(f"{_FOLDER}.{name}")
        except ModuleNotFoundError as error:
            raise LookupError(f"no file of harness/faults is called {name}") from error
    return _REGISTERED[name]
