"""State of a trial that outlives its pod: a folder on the provider's volume, for trials whose fault replaces the pod.

Earlier pods save what later pods need; the last one writes the document. The trial's end deletes the folder; an abandoned one is deleted by a
later trial on the same volume after its expiry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from plumbline.declarations import Trial
from plumbline.harness.contention_monitor import MonitorSnapshot
from plumbline.harness.launcher_protocol import DELETIONS_VARIABLE, VOLUME_VARIABLE, Deletion, parse_deletions
from plumbline.harness.measurement import TrialFailed, TrialJudgement, degraded
from plumbline.results import Event, MetricRow, Scalar
from plumbline.whole_file import write_whole

_EXPIRY_FILE = "expires"
_FOLDER = re.compile(r"trial-[0-9a-f]{16}")
"""Names of the folders: a volume may hold others that begin alike, and those are not the harness's to delete."""
_RETENTION_S = 3600.0
"""How long after all of a trial's timeouts its folder is kept."""


class PersistentState:
    """The folder of one attempt of a trial on the volume. `deletions`: of the pods before this one; none in the first pod."""

    def __init__(self, folder: Path, deletions: tuple[Deletion, ...], lasts_s: float) -> None:
        self.folder, self.deletions = folder, deletions
        self._lasts_s = lasts_s

    def open(self) -> None:
        """Make the folder, empty in the first pod, and clear the volume of folders that have expired.

        TrialFailed if the volume cannot be written to, or if an earlier pod of this attempt left nothing on it.
        """
        if self.deletions:
            if not (self.folder / _EXPIRY_FILE).is_file():
                raise TrialFailed(
                    "bad_declaration",
                    f"the volume holds no state of the trial's earlier pod ({self.folder}); expected launcher.volume_claim to name "
                    " storage that all nodes of the provider share",
                )
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.mkdir(parents=True)
            (self.folder / _EXPIRY_FILE).write_text(str(time.time() + self._lasts_s))
        except OSError as error:
            raise TrialFailed(
                "bad_declaration",
                f"the volume of launcher.volume_claim cannot be written to: {error}; expected it to be writable by the pod's user and group",
            ) from error
        for other in self.folder.parent.glob(f"trial-*/{_EXPIRY_FILE}"):
            with suppress(OSError, ValueError):  # somebody else's, who may delete it at this very moment
                if _FOLDER.fullmatch(other.parent.name) and float(other.read_text()) < time.time():
                    shutil.rmtree(other.parent, ignore_errors=True)

    def put(self, name: str, data: Mapping[str, Any]) -> None:
        """Write durably. OSError if it cannot be written."""
        write_whole(self.folder / f"{name}.json", json.dumps(data), durable=True)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def get(self, name: str) -> dict[str, Any]:
        """The state that an earlier pod wrote; TrialFailed if it is absent or unreadable."""
        try:
            state: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError) as error:
            raise TrialFailed(
                "harness_error", f"the state of the earlier pod cannot be read: {self.folder}/{name}.json: {error}"
            ) from error
        return state

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def persistent_state_of(trial: Trial, variables: Mapping[str, str]) -> PersistentState | None:
    """The persistent state of a trial whose fault deletes its pod; None for any other trial.

    TrialFailed if the environment names no volume."""
    workload, launcher = trial.workload, trial.provider.launcher
    if not workload.pod_deletions:
        return None
    root = variables.get(VOLUME_VARIABLE)
    if not root or not launcher.runs_pods:
        raise TrialFailed(
            "bad_declaration",
            f"the fault {workload.replacing_fault} needs a volume that outlives the pod, but {VOLUME_VARIABLE} is not set; "
            "expected a kubernetes launcher with volume_claim",
        )
    identity = hashlib.sha256(trial.model_dump_json().encode()).hexdigest()[:16]
    lasts_s = launcher.gang_assembly_s + launcher.trial_limit_s + launcher.unreachable_s + _RETENTION_S
    return PersistentState(Path(root) / f"trial-{identity}", parse_deletions(variables.get(DELETIONS_VARIABLE)), lasts_s)


_START_KEY, _MONITOR_KEY = "start", "monitor"
_MAX_SHOWN = 5


@dataclass(frozen=True)
class StartState:
    """The environment, the hardware probes and the events until then."""

    facts: dict[str, Scalar]
    probed: list[MetricRow]
    events: list[Event]

    def save(self, state: PersistentState) -> None:
        state.put(_START_KEY, _START.dump_python(self, mode="json"))

    @classmethod
    def load(cls, state: PersistentState) -> StartState:
        """The first pod's state; TrialFailed if it cannot be read.

        Events keep the wall clock alone: monotonic clocks of two machines cannot be compared."""
        start = _START.validate_python(state.get(_START_KEY))
        return cls(start.facts, start.probed, [event.model_copy(update={"monotonic_s": None}) for event in start.events])


_START, _MONITOR = TypeAdapter(StartState), TypeAdapter(MonitorSnapshot)


def save_monitor(state: PersistentState, snapshot: MonitorSnapshot) -> None:
    state.put(_MONITOR_KEY, _MONITOR.dump_python(snapshot, mode="json"))


def load_monitor(state: PersistentState) -> MonitorSnapshot:
    return _MONITOR.validate_python(state.get(_MONITOR_KEY))


def environment_changes(before: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> Sequence[TrialJudgement]:
    """The last pod ran in another environment than the first, whose environment is the document's: the recovery is of both."""
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if not names:
        return []
    changes = "; ".join(f"{name}: {before.get(name)} → {now.get(name)}" for name in names[:_MAX_SHOWN])
    more = f"; and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return [degraded("environment_changed", f"environment changed between pods: {changes}{more}")]
