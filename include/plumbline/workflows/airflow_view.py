"""What the checks of the installation ask of Airflow: what its DAG files declare, and the state of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class DeclaredDag:
    """A DAG as its file declares it; nothing else says what must run, so that a new file is watched by being there.

    `tasks`: those whose failure is ours. `by_itself`: it starts unpaused. `repeats`: its next run repeats the whole work. `starts`: DAGs
    whose runs its tasks start. `slots`: the last times of its clock, newest first; none of a DAG without one.
    """

    dag_id: str
    file: str
    tasks: tuple[str, ...] = ()
    scheduled: bool = False
    by_itself: bool = False
    repeats: bool = False
    starts: tuple[str, ...] = ()
    slots: tuple[datetime, ...] = ()


@dataclass(frozen=True)
class DagFiles:
    """The DAG files of a bundle. `dags`: by id. `unreadable`: file → why it cannot be parsed. `files`: all that were read; relative paths."""

    dags: Mapping[str, DeclaredDag] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    files: frozenset[str] = frozenset()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> DagFiles:
        """From a row of JSON with the same names."""
        dags = [
            DeclaredDag(**{**dag, "tasks": tuple(dag["tasks"]), "starts": tuple(dag["starts"]), "slots": _times(dag["slots"])})
            for dag in row["dags"]
        ]
        return cls({dag.dag_id: dag for dag in dags}, row["unreadable"], frozenset(row["files"]))

    @property
    def watched(self) -> list[DeclaredDag]:
        """The DAGs whose failed tasks are ours to find: all but those that only people start, who see how their run ends."""
        started = {name for dag in self.dags.values() for name in dag.starts}
        return [dag for _, dag in sorted(self.dags.items()) if dag.scheduled or dag.dag_id in started or not dag.by_itself]


def _times(texts: Sequence[str]) -> tuple[datetime, ...]:
    return tuple(map(datetime.fromisoformat, texts))


@dataclass(frozen=True)
class DeployedDag:
    """A DAG in Airflow. `due`: the slot of its next run, which a scheduler that works never leaves in the past; None without a clock.

    `paused`: None if this Airflow does not say it, nor whether it has the DAG at all."""

    paused: bool | None
    due: datetime | None = None


class AirflowView(Protocol):
    """Airflow's state, as its database or its API reports it."""

    @property
    def reads_dags(self) -> bool:
        """Whether `dag` knows what it answers."""

    def dag_files(self) -> DagFiles: ...

    def dag(self, dag_id: str) -> DeployedDag | None:
        """None if Airflow does not have the DAG."""

    def active(self, dag_id: str) -> bool:
        """Whether a run of it is queued or running."""

    def task_states(self, dag_id: str, task_ids: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        """Run id → task id (mapped: with `_` and its index) → state, of all runs in which one of these tasks failed."""

    def newest_states(self, dag: DeclaredDag) -> tuple[str, Mapping[str, str | None]] | None:
        """The newest run of its clock whose tasks have ended, with their states; None without one."""

    def started(self, dag_id: str, slot: datetime) -> bool:
        """Whether the schedule's run of this time exists."""

    def heartbeats(self) -> Mapping[str, datetime | None]:
        """Component (`triggerer`, `dag_processor`) → its last heartbeat, None without one. OSError if Airflow does not answer."""
