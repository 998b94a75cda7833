"""The local launcher: the provider is this machine."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.declarations import LocalLauncher as Declared
from plumbline.declarations import Trial
from plumbline.launch.base import OnProgress
from plumbline.launch.this_machine import GRACE_S, HARNESS, PATIENCE_S, Place, ThisMachine
from plumbline.results import LaunchRecord, ResultStore


class LocalLauncher:
    """Runs trials on the provider's cores; see ThisMachine for the arguments."""

    def __init__(self, command: Sequence[str] = HARNESS, *, grace_s: float = GRACE_S, patience_s: float = PATIENCE_S) -> None:
        self._machine = ThisMachine(command, grace_s, patience_s)

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """See Launcher.launch. OSError if the store cannot be written; a trial that was running is ended all the same."""
        declared = trial.provider.launcher
        assert isinstance(declared, Declared)
        place = Place("local", declared.machine, declared.cpus, declared.memory, declared.timeout)
        return self._machine.launch(trial, store, place, on_progress)
