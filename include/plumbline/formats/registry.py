"""Formats by name: a format's own file registers it, and whoever dispatches on a name or lists the names asks here."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Generic, TypeVar


class Format(ABC):
    """A file or an output with results that another program writes. Each kind of format adds how it is recognised and read.

    `name`: as declarations and commands give it. `order`: its place in lists and among guesses; formats without one come last, by name."""

    name: ClassVar[str]
    order: ClassVar[int] = 1000


AnyFormat = TypeVar("AnyFormat", bound=Format)
AnyKind = TypeVar("AnyKind", bound=type[Format])

REGISTERED: dict[str, Format] = {}
"""All formats by name, of every kind; `Formats` has those of one kind in their order."""


def register(format_: AnyKind) -> AnyKind:
    """Make the format of this class known. ValueError if another one has its name."""
    if format_.name in REGISTERED:
        raise ValueError(f"a format is called {format_.name} already; expected another name")
    REGISTERED[format_.name] = format_()
    return format_


class Formats(Mapping[str, AnyFormat], Generic[AnyFormat]):
    """The formats of one kind by name, in their order. Files of this package register theirs before the first look-up.

    `folder`: the one below this package that holds all formats of the kind; empty for the package's own files."""

    def __init__(self, kind: type[Any], folder: str = "") -> None:  # of AnyFormat, which is abstract
        self._kind, self._folder = kind, folder

    def __getitem__(self, name: str) -> AnyFormat:
        load_own(self._folder)
        found = REGISTERED[name]
        if not isinstance(found, self._kind):
            raise KeyError(name)
        own: AnyFormat = found
        return own

    def __iter__(self) -> Iterator[str]:
        load_own(self._folder)
        own = [one for one in REGISTERED.values() if isinstance(one, self._kind)]
        return iter([one.name for one in sorted(own, key=lambda one: (one.order, one.name))])

    def __len__(self) -> int:
        return len(list(iter(self)))


@cache
def load_own(folder: str = "") -> None:
    """Import every file of this package, or of a folder below it, so that a new one is known without a list of files."""
    package = import_module(f"{__package__}.{folder}" if folder else str(__package__))
    for module in iter_modules(package.__path__):
        if not module.ispkg:
            import_module(f"{package.__name__}.{module.name}")
