"""The fault that deletes a trial's pod: the pod is deleted when its harness asks for it, and the next one of the same attempt is created.

Each part is kept in the attempt's state before it is done, and pods have names of their own: whoever dies in between, the next process goes on
from there, no pod is deleted twice and none is created twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from plumbline.harness.kept import Deletion
from plumbline.launch.cluster import names, observation
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.base import Row, Seen
from plumbline.launch.cluster.look import logs, look, together, tolerated
from plumbline.launch.cluster.payload import decode, encode
from plumbline.launch.cluster.pod_state import over
from plumbline.launch.failures import Unreachable
from plumbline.results import Event, PodRecord

if TYPE_CHECKING:
    from plumbline.launch.cluster.attempt import Attempt

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.5
_GONE_S = 120.0
"""How long a pod that was deleted without grace may still be shown: only a finalizer holds it then."""


@dataclass
class Replaced:
    """One pod that is deleted so that another one takes its place, by the launcher's clock. `seen`: everything that was seen of it.

    `gone_at` is None until it was seen to be gone, `created_at` until the next one was created. `late`: more than one process was needed.
    """

    name: str
    seen: Seen
    asked_at: datetime
    gone_at: datetime | None = None
    created_at: datetime | None = None
    late: bool = False

    def row(self) -> Row:
        """As JSON."""
        moments = {name: at and at.isoformat() for name, at in self._moments().items()}
        return {"name": self.name, "late": self.late, "seen": encode(self.seen), **moments}

    @classmethod
    def read(cls, row: Row) -> Replaced:
        """What `row` made."""
        at = {name: datetime.fromisoformat(row[name]) for name in ("asked_at", "gone_at", "created_at") if row[name]}
        return cls(row["name"], decode(row["seen"]), late=row["late"], **at)

    def events(self) -> list[Event]:
        """The moments of the launch."""
        called = {"asked_at": "pod_deletion_asked", "gone_at": "pod_seen_gone", "created_at": "pod_replaced"}
        return [Event(name=called[name], utc=at, clock="launcher") for name, at in self._moments().items() if at is not None]

    def record(self) -> tuple[PodRecord, ...]:
        """The pod's record: it held its node until it was gone."""
        gone = () if self.gone_at is None else (Event(name="deleted", utc=self.gone_at, clock="launcher"),)
        return tuple(pod.model_copy(update={"events": (*pod.events, *gone)}) for pod in observation.pod_records(self.seen))

    def _moments(self) -> dict[str, datetime | None]:
        return {"asked_at": self.asked_at, "gone_at": self.gone_at, "created_at": self.created_at}


@dataclass
class Replacements:
    """The pods of an attempt that others took the place of, in their order."""

    done: list[Replaced] = field(default_factory=list)

    @property
    def pending(self) -> Replaced | None:
        """The one under way: the next pod is not known to have been created."""
        return self.done[-1] if self.done and self.done[-1].created_at is None else None

    @property
    def since(self) -> datetime | None:
        """From when on the current pod is waited for; None of the first one."""
        return self.done[-1].gone_at if self.done else None

    @property
    def deletions(self) -> tuple[Deletion, ...]:
        """What the next pod is told of those before it."""
        return tuple(
            Deletion(each.asked_at.timestamp(), each.gone_at.timestamp(), each.late) for each in self.done if each.gone_at is not None
        )

    def rows(self) -> list[Row]:
        """As JSON."""
        return [each.row() for each in self.done]

    @classmethod
    def read(cls, rows: Sequence[Row]) -> Replacements:
        """What `rows` made."""
        return cls([Replaced.read(row) for row in rows])


def begin(attempt: Attempt, seen: Seen) -> bool:
    """The pod asks to be deleted: keep that this is to happen, and what is known of the pod. Whether it is there for it.

    One that ended or vanished meanwhile did so by itself, and that is how the attempt ended.
    """
    api, name = attempt.api(attempt.looking_s), attempt.pod_names[0]
    there = attempt.api().get("Pod", name)
    attempt.seen = look(api, names.selector(attempt.trial), together(attempt.seen, seen))
    if there is None or over(there):
        return False
    text, _ = logs(api, attempt.seen, most_s=attempt.looking_s)
    log = f"{attempt.home.folder(attempt.trial)}/launch.{len(attempt.replaced.done)}.log"
    tolerated("store the log of the pod that is deleted", partial(attempt.home.put, log, text), None)
    attempt.replaced.done.append(Replaced(name, attempt.seen, _now()))
    attempt.seen, attempt.started_at = Seen(expected=attempt.seen.expected), None
    attempt.keep_state()
    return True


def delete(attempt: Attempt, api: ClusterApi) -> None:
    """Delete the pod that is to be replaced, if it is there, without grace, and see it gone. Refused; Unreachable, also if it stays."""
    replaced = attempt.replaced.pending
    if replaced is None:
        raise ValueError(f"no pod of {attempt.trial.trial_id} is to be replaced")
    if replaced.gone_at is not None:
        return
    if api.get("Pod", replaced.name) is not None:
        replaced.asked_at = _now()
        api.delete("Pod", replaced.name, grace_s=0)
        until = time.monotonic() + _GONE_S
        while api.get("Pod", replaced.name) is not None:
            if time.monotonic() > until:
                raise Unreachable(
                    f"pod {replaced.name} is still there {_GONE_S:.0f} s after it was deleted without grace; a finalizer holds it"
                )
            time.sleep(_LOOK_EVERY_S)
    replaced.gone_at = _now()
    _log.info("Pod %s is gone, as its fault pod_delete asked; pod %s takes its place.", replaced.name, attempt.pod_names[0])
    attempt.keep_state()


def created(attempt: Attempt) -> None:
    """The next pod is there. OSError if that cannot be kept; then the next process finds it there."""
    replaced = attempt.replaced.pending
    if replaced is not None:
        replaced.created_at = _now()
        attempt.keep_state()


def _now() -> datetime:
    return datetime.now(timezone.utc)
