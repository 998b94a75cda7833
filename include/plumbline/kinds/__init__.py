"""Kinds of workloads, one file each: what it requires, its leading metric, its estimate, its simulation, its verb and what measures it.

base        `WorkloadKind`, `register`, `kind_of`
training    our own training loop
script      a team's training script
container   any program in a container
inference   served models
arithmetic  numbers that follow from a declaration, and those that the harness and the simulation compute alike
simulation  the draws of a simulated trial, and the rows of steps and of served requests
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from plumbline.kinds.base import KINDS, Simulated, WorkloadKind, kind_of, kind_of_series, register

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["KINDS", "Simulated", "WorkloadKind", "kind_of", "kind_of_series", "register"]
