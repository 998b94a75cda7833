"""Pods of an attempt that a declared fault replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from plumbline.harness.launcher_protocol import Deletion
from plumbline.launch.cluster.observe import pod_records
from plumbline.launch.cluster.observe.observation import LaunchObservation, Row, decode_observation, encode_observation
from plumbline.results import Event, PodRecord


@dataclass
class ReplacedPod:
    """A pod that the trial's fault replaces. Times by the launcher's clock: `gone_at` None until it is gone, `created_at` until the next one
    exists. `seen`: its observation. `late`: more than one process handled it."""

    name: str
    seen: LaunchObservation
    asked_at: datetime
    gone_at: datetime | None = None
    created_at: datetime | None = None
    late: bool = False

    def row(self) -> Row:
        moments = {name: at and at.isoformat() for name, at in self._moments().items()}
        return {"name": self.name, "late": self.late, "seen": encode_observation(self.seen), **moments}

    @classmethod
    def read(cls, row: Row) -> ReplacedPod:
        at = {name: datetime.fromisoformat(row[name]) for name in ("asked_at", "gone_at", "created_at") if row[name]}
        return cls(row["name"], decode_observation(row["seen"]), late=row["late"], **at)

    def events(self) -> list[Event]:
        called = {"asked_at": "pod_deletion_asked", "gone_at": "pod_seen_gone", "created_at": "pod_replaced"}
        return [Event(name=called[name], utc=at, clock="launcher") for name, at in self._moments().items() if at is not None]

    def record(self) -> tuple[PodRecord, ...]:
        """The pod's record, which holds the node until the pod is gone."""
        gone = () if self.gone_at is None else (Event(name="deleted", utc=self.gone_at, clock="launcher"),)
        return tuple(pod.model_copy(update={"events": (*pod.events, *gone)}) for pod in pod_records.pod_records(self.seen))

    def _moments(self) -> dict[str, datetime | None]:
        return {"asked_at": self.asked_at, "gone_at": self.gone_at, "created_at": self.created_at}


@dataclass
class Replacements:
    """The replaced pods of an attempt, in their order."""

    done: list[ReplacedPod] = field(default_factory=list)

    @property
    def pending(self) -> ReplacedPod | None:
        """The one whose successor is not created yet."""
        return self.done[-1] if self.done and self.done[-1].created_at is None else None

    @property
    def since(self) -> datetime | None:
        """When the last replaced pod was gone; None for the first pod."""
        return self.done[-1].gone_at if self.done else None

    @property
    def deletions(self) -> tuple[Deletion, ...]:
        """Deletions of the earlier pods, as the next pod gets them."""
        return tuple(
            Deletion(each.asked_at.timestamp(), each.gone_at.timestamp(), each.late) for each in self.done if each.gone_at is not None
        )

    def rows(self) -> list[Row]:
        return [each.row() for each in self.done]

    @classmethod
    def read(cls, rows: Sequence[Row]) -> Replacements:
        return cls([ReplacedPod.read(row) for row in rows])
