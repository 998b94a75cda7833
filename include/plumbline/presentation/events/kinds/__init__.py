"""The kinds of events: one file each, found by its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from plumbline.presentation.events.event import KINDS, EventKind

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def all_kinds() -> list[EventKind]:
    """Each kind, in its order."""
    return sorted(KINDS, key=lambda kind: kind.order)
