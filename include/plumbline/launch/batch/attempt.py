"""An announced attempt of a trial that runs as a job: what any process finds of it in the home store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pkgutil import resolve_name
from typing import Any, TypeVar

from plumbline.declarations import Trial
from plumbline.declarations.providers.batch import BatchLauncher
from plumbline.launch import stores
from plumbline.launch.batch.place import JobPlace
from plumbline.launch.failures import RequestFailed, Unreachable
from plumbline.launch.remote import UNFINISHED, RemoteAttempt, RequestFailures
from plumbline.results import Event, FailureClass, InvalidResult, LaunchRecord, ResultStore
from plumbline.results.signing import KeyPair

T = TypeVar("T")
_STATE = "job.json"
PATIENCE_S = 60.0
_PLACES = {"slurm": "plumbline.launch.batch.slurm:Slurm", "ssh": "plumbline.launch.batch.machine:Machines"}


def place_of(launcher: BatchLauncher) -> JobPlace[Any]:
    """Where the jobs of a declaration run."""
    place: JobPlace[Any] = resolve_name(_PLACES[launcher.kind])(launcher)
    return place


def insist(question: Any, place: JobPlace[Any], patience_s: float = PATIENCE_S) -> Any:
    """The answer to a question; asked again for `patience_s` while the place does not answer. `question`: makes its coroutine. Unreachable."""
    failures = RequestFailures(patience_s, place.word)
    while True:
        try:
            return asyncio.run(_of(question()))
        except RequestFailed as problem:
            if (stop := failures.failed(problem, time.time())) is not None:
                raise Unreachable(stop.detail) from problem
            time.sleep(min(failures.wait_s(problem), patience_s))


async def _of(question: Coroutine[Any, Any, T]) -> T:
    return await question


@dataclass
class BatchAttempt(RemoteAttempt):
    """`requested_at`: when it was announced. `key`: its signing key, only in the process that announced it."""

    trial: Trial
    home: ResultStore
    requested_at: datetime
    key: KeyPair | None = field(default=None, repr=False)

    @classmethod
    def next(cls, spec: Mapping[str, str]) -> BatchAttempt:
        """Announce the next attempt. OSError if the home store or the archive, for the public signing key, cannot be written."""
        home = stores.home()
        trial = stores.next_attempt(stores.planned_trial(home, spec), home)
        attempt = cls(trial, home, datetime.now(timezone.utc), key=stores.issue_signing_key(trial))
        home.put_trial(trial)
        attempt.keep()
        attempt.record("interrupted", UNFINISHED)
        return attempt

    @classmethod
    def at(cls, home: ResultStore, folder: str) -> BatchAttempt:
        """See RemoteLauncher.attempt_at."""
        trial = home.trial(folder)
        try:
            state = json.loads(home.get(f"{folder}/{_STATE}"))
            return cls(trial, home, datetime.fromisoformat(state["requested_at"]))
        except FileNotFoundError:
            return cls(trial, home, datetime.now(timezone.utc))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidResult(f"{home.uri(folder)}/{_STATE} cannot be read: {error}") from error

    @property
    def launcher(self) -> BatchLauncher:
        declared = self.trial.provider.launcher
        assert isinstance(declared, BatchLauncher)
        return declared

    @property
    def place(self) -> JobPlace[Any]:
        return place_of(self.launcher)

    @property
    def name(self) -> str:
        # Two installations may share a cluster's folder.
        return f"pl-{hashlib.sha256(self.home.uri(self.folder).encode()).hexdigest()[:16]}"

    @property
    def expires(self) -> float:
        """Unix seconds after which nothing of it should run."""
        waits = self.launcher.start_wait_s + self.launcher.timeout + self.launcher.unreachable_timeout
        return float(self.requested_at.timestamp() + waits + 600.0)

    def keep(self) -> None:
        """Store its state."""
        state = {"requested_at": self.requested_at.isoformat()}
        self.home.put(f"{self.folder}/{_STATE}", json.dumps(state).encode())

    def lives(self) -> bool:
        place = self.place
        return bool(insist(lambda: place.lives(self.name), place))

    def record(
        self,
        failure: FailureClass | None,
        detail: str | None,
        *,
        exit_code: int | None = None,
        seen: Mapping[str, Any] | None = None,
        log_tail: str = "",
        ended_at: datetime | None = None,
    ) -> LaunchRecord:
        """Store launch.json. `seen`: of the last poll."""
        seen = seen or {}
        events = [Event(name="requested", utc=self.requested_at, clock="launcher")]
        for name, key in (("created", "submitted"), ("scheduled", "started"), ("started", "began")):
            if isinstance(at := seen.get(key), int | float):
                events.append(Event(name=name, utc=datetime.fromtimestamp(at, timezone.utc), clock="cluster"))
        if ended_at is not None:
            events.append(Event(name="finished", utc=ended_at, clock="launcher"))
        node = {
            "job.name": self.name,
            "job.state": seen.get("state"),
            "job.nodes": seen.get("nodes"),
            "host.name": seen.get("nodes") or None,
        }
        record = LaunchRecord(
            launcher=self.launcher.kind,
            events=tuple(events),
            exit_code=exit_code,
            failure_class=failure,
            failure_detail=detail,
            node={key: value for key, value in node.items() if value},
            log_tail=log_tail,
        )
        self.home.put_launch(self.trial, record)
        return record
