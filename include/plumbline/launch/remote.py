"""Launchers whose trials outlast the task that submitted them: submit, poll, collect and cancel, each from any process.

The home store holds the state between processes. An attempt is announced there before anything of it exists, and its preliminary record stays if
every process of the launch dies.
"""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from plumbline.declarations import Provider, Trial
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress, stores
from plumbline.launch.failures import (
    ApiRefused,
    BadDeclaration,
    Interrupted,
    RequestFailed,
    TrialFailure,
    Unreachable,
    is_retryable,
    is_usable,
)
from plumbline.launch.launcher import Launcher, OnProgress
from plumbline.launch.leftovers import Leftovers
from plumbline.results import FailureClass, InvalidResult, LaunchRecord, ResultStore, Validity

T = TypeVar("T")
Ticket = Mapping[str, Any]
"""What finds a submitted launch from any process: plain JSON without a secret, with at least `launch`, its name, and `trial_id`."""
UNFINISHED = "the launch was ended from outside, and its outcome was not recorded"
"""Detail of the preliminary record."""
CANCEL_S = 2.0
"""Seconds to cancel in for a process that is being ended."""
_FIRST_S, _LONGEST_S, _LONGEST_RETRY_AFTER_S = 1.0, 30.0, 300.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stop:
    """Why a launch is ended from here. `status`: the HTTP status of the refusal, or of the last answer."""

    reason: Literal["killed", "refused", "unreachable", "no_connection"]
    detail: str
    status: int | None = None


@dataclass(frozen=True)
class Poll:
    """One poll of a launch.

    `end`: "finished" or "stopped", or a word that the launcher's own operator knows; None while it goes on. `seen`: what `collect` needs, as
    JSON. `pause_s`: seconds until the next poll.
    """

    end: str | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)
    pause_s: float = 0.0


class RequestFailures:
    """Consecutive failures of requests to `place`. Times are seconds since the epoch."""

    def __init__(self, limit_s: float, place: str, jitter: random.Random | None = None) -> None:
        self._limit_s, self._place = limit_s, place
        self._jitter = jitter or random.Random()
        self._since: float | None = None
        self._failures = 0

    def failed(self, problem: RequestFailed, now: float) -> Stop | None:
        """One more failure; a Stop once they have lasted for the provider's unreachable_timeout."""
        self._failures += 1
        self._since = now if self._since is None else self._since
        if now < self._since + self._limit_s:
            return None
        duration = f"{self._place} was unreachable for {now - self._since:.0f} s (unreachable_timeout: {self._limit_s:.0f} s)"
        return Stop("unreachable", f"{duration}, last: {problem}", problem.status)

    def is_new(self) -> bool:
        """Whether the newest failure is the first one."""
        return self._failures == 1

    def answered(self, now: float) -> float | None:
        """A good answer: the seconds of the outage that it ends; None without one."""
        since, self._since, self._failures = self._since, None, 0
        return None if since is None else now - since

    def wait_s(self, problem: RequestFailed) -> float:
        """Seconds until the next try: exponential with jitter, and at least what the API asked for."""
        backoff = min(_LONGEST_S, _FIRST_S * 2.0 ** min(self._failures - 1, 10)) * self._jitter.uniform(0.5, 1.0)
        return max(backoff, min(problem.retry_after_s, _LONGEST_RETRY_AFTER_S))


def tolerate(what: str, action: Callable[[], T], instead: T) -> T:
    """The action's result; if the trials' place or a store fails, `instead` and a warning in the log."""
    try:
        return action()
    except Interrupted:  # Airflow ends the task
        raise
    except (TrialFailure, ApiRefused, RequestFailed, OSError) as error:
        _log.warning("Could not %s: %s", what, error)
        return instead


class RemoteAttempt(ABC):
    """An announced attempt of a trial, as any process finds it in the home store."""

    trial: Trial
    home: ResultStore

    @property
    def folder(self) -> str:
        """Its folder in the home store."""
        return self.home.folder(self.trial)

    @property
    @abstractmethod
    def name(self) -> str:
        """The launch's name where it runs."""

    @property
    def began(self) -> bool:
        """Whether all of it ran once: what is missing since then is a failure, and is not created again."""
        return False

    @abstractmethod
    def lives(self) -> bool:
        """Whether anything of it exists where it runs. Unreachable, ApiRefused."""

    def goes_on(self) -> bool:
        """Whether the next try of its task takes it up. Unreachable, ApiRefused."""
        return self.lives()

    @abstractmethod
    def record(self, failure: FailureClass | None, detail: str | None) -> LaunchRecord:
        """Store launch.json. OSError if the home store cannot be written."""

    def refuse(self, failure: TrialFailure) -> None:
        """Record why nothing was requested."""
        self.record(failure.failure_class, str(failure))

    def validity(self) -> Validity | None:
        """Validity of its document in the trials' store, else of the one at home; None without a valid one. OSError if that store does not answer
        and home has no document."""
        try:
            try:
                document = stores.store_of(self.trial.provider).document(self.folder)
            except OSError as error:
                if not self.home.exists(f"{self.folder}/result.json"):
                    if isinstance(error, FileNotFoundError):
                        return None
                    raise
                document = self.home.document(self.folder)
        except InvalidResult as error:
            _log.warning("%s", error)
            return None
        if document.trial != self.trial:  # of another installation, or of this one with another home
            _log.warning("Ignoring the document of another trial: %s", document.trial.trial_id)
            return None
        return document.validity

    @property
    def unsettled(self) -> bool:
        """Whether its record does not show its end."""
        try:
            record = self.home.launch(self.folder)
        except InvalidResult:  # what it started may still exist
            return True
        return record is None or record.failure_class == "unreachable" or self.unfinished

    @property
    def unfinished(self) -> bool:
        """Whether its record is the preliminary one, or unreadable."""
        try:
            record = self.home.launch(self.folder)
        except InvalidResult:
            return True
        return record is not None and (record.failure_class, record.failure_detail) == ("interrupted", UNFINISHED)


A = TypeVar("A", bound=RemoteAttempt)


class RemoteLauncher(Launcher, Generic[A]):
    """Base of launchers whose trials outlast a task. Airflow's operator submits, its trigger polls, and the operator collects.

    Each method may run in another process than the one before it.
    """

    operator: ClassVar[str | None] = "plumbline.airflow.operators:remote_operator"
    place: ClassVar[str] = "the provider"
    """Where trials run, in messages."""

    @abstractmethod
    def announce(self, spec: Mapping[str, str]) -> A:
        """Announce the next attempt of a planned trial before anything of it exists: trial.json, then the preliminary record.

        OSError if the home store cannot be written. If the trials' store cannot, the attempt is recorded as failed, and that is raised.
        """

    @abstractmethod
    def attempt_at(self, home: ResultStore, folder: str) -> A:
        """The announced attempt of a folder. FileNotFoundError or InvalidResult without a readable specification."""

    @abstractmethod
    def submit(self, attempt: A) -> None:
        """Request what runs the attempt; what an earlier try requested is met by its name.

        BadDeclaration before anything was requested. ApiRefused or Unreachable after a part of it was: `collect` then removes the rest.
        """

    @abstractmethod
    def ticket(self, attempt: A) -> Ticket:
        """What `poll` and `cancel` need of a submitted attempt."""

    @abstractmethod
    def poll(self, ticket: Ticket, log: Any) -> AsyncGenerator[Poll, None]:
        """One poll each time that the next is asked for, up to the one with an `end`. The caller sleeps between them, and may leave at any time.

        Writes the trial's progress, and its lines to `log`. An outage of the place is waited out, up to the provider's unreachable_timeout.
        """

    @abstractmethod
    def collect(self, attempt: A, seen: Mapping[str, Any] | None = None, stop: Stop | None = None) -> LaunchRecord:
        """End what still runs, wait until it is gone, and store the record of the attempt.

        `seen`: of the last poll. `stop`: why it is ended from here. OSError if the home store cannot be written; the preliminary record remains.
        """

    @abstractmethod
    def cancel(self, ticket: Ticket, *, patience_s: float, timeout_s: float) -> None:
        """Request the end of everything, without waiting for it and without a record: the caller has seconds to live.

        Repeats requests for `patience_s`, each of at most `timeout_s` seconds. RequestFailed.
        """

    @abstractmethod
    def sweep(self, provider: Provider, campaign_id: str | None = None) -> list[str]: ...

    @abstractmethod
    def leftovers(self, provider: Provider) -> Leftovers: ...

    def wait_s(self, attempt: A) -> float:
        """Seconds after which a launch that is submitted now has ended, whatever happens."""
        declared = attempt.trial.provider.launcher
        return (declared.start_wait_s or 0.0) + declared.trial_limit_s + declared.unreachable_s

    def newest(self, spec: Mapping[str, str]) -> A | None:
        """The attempt that was announced last, or None."""
        newest = stores.newest_attempt(spec)
        return None if newest is None else self.attempt_at(*newest)

    def adopt(self, spec: Mapping[str, str], request: str | None = None) -> tuple[A, LaunchRecord | None]:
        """The attempt of this try of the task, and its record if it is over already. `request`: the same in each retry of the task.

        Adopts an attempt that still runs. Records one that is over. That, or one that an earlier try of the request recorded, is the result if it
        was measured or failed in a way that a retry would not change. Otherwise announces the next attempt. OSError if a store, Unreachable if
        the place cannot be reached.
        """
        newest, record = self.newest(spec), None
        earlier = [] if request is None else stores.attempts_for(request, stores.home(), spec)
        if newest is not None and newest.unsettled:
            if newest.goes_on():
                _log.info("Launch %s exists: adopting it.", newest.name)
                return newest, None
            record = self.settle_attempt(newest)
        elif newest is not None and newest.folder in earlier:
            record = newest.home.launch(newest.folder)
            if record is not None and is_usable(newest.validity()):  # it was ended, or the task was, after it had been measured
                return newest, record.model_copy(update={"failure_class": None, "failure_detail": None})
        if newest is not None and record is not None and not is_retryable(record, newest.validity()):
            return newest, record
        return self.announce(spec), None

    def settle_attempt(self, attempt: A) -> LaunchRecord | None:
        """Record the end of an attempt that no longer runs; None if its record cannot be improved. OSError if the trials' store cannot be read."""
        return self.collect(attempt)

    def settle(self, spec: Mapping[str, str]) -> list[str]:
        """End and record the launches that a trial's ended task left unrecorded; their names.

        A task that a person marks between its submission and its worker's return has no trigger and no process that ends the launch. OSError
        if a store cannot be reached; an unreachable place is recorded as the failure.
        """
        home, settled = stores.home(), []
        for folder in home.announced(spec["campaign_id"], spec["trial_id"]):
            try:
                attempt = self.attempt_at(home, folder)
            except (FileNotFoundError, InvalidResult) as error:
                _log.warning("Skipping %s: %s", folder, error)
                continue
            if not attempt.trial.provider.launcher.outlasts_task or not attempt.unsettled:
                continue
            if tolerate(f"look for launch {attempt.name}", attempt.lives, attempt.unfinished):
                _log.warning("No task watches launch %s: ending and recording it.", attempt.name)
                self.collect(attempt, stop=Stop("killed", "its task was ended in Airflow between worker and triggerer"))
            else:
                self.settle_attempt(attempt)
            settled.append(attempt.name)
        return settled

    def create(self, attempt: A, step: Callable[[], object]) -> LaunchRecord | None:
        """Run a step of a submission completely; else nothing is left, and the record of the refusal is returned.

        BadDeclaration after it was recorded, where no request reached the place. OSError if the home store cannot be written.
        """
        # From here on, processes on this machine see that the trial may be running.
        progress.write_progress(ProgressLine(attempt.trial.trial_id, "queued", 0.0, f"requested a node from {self.place}"))
        try:
            step()
            return None
        except BadDeclaration as failure:
            progress.remove_progress(attempt.trial.trial_id)
            attempt.refuse(failure)
            raise
        except ApiRefused as refusal:
            stop = Stop("refused", refusal.detail, refusal.status)
        except Unreachable as failure:
            stop = Stop("unreachable", str(failure))
        return self.collect(attempt, stop=stop)

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """Submit, poll and collect in this process. `store`: the home store. A process that is ended cancels; one that dies leaves the launch,
        which the next try adopts and `settle` ends."""
        attempt, record = self.adopt({"campaign_id": trial.campaign_id, "trial_id": trial.trial_id})
        try:
            if record is None and not attempt.began:
                with suppress(BadDeclaration):
                    record = self.create(attempt, lambda: self.submit(attempt))
            if record is not None or not attempt.unfinished:
                return record or self._recorded(attempt)
            return self.collect(attempt, asyncio.run(self._wait(attempt)))
        except BaseException:
            tolerate(
                "cancel the launch before its process ends",
                lambda: self.cancel(self.ticket(attempt), patience_s=CANCEL_S, timeout_s=CANCEL_S),
                None,
            )
            raise

    async def _wait(self, attempt: A) -> Mapping[str, Any]:
        seen: Mapping[str, Any] = {}
        async with aclosing(self.poll(self.ticket(attempt), _log)) as polls:
            async for poll in polls:
                seen = poll.seen
                if poll.end is not None:
                    break
                await asyncio.sleep(poll.pause_s)
        return seen

    def _recorded(self, attempt: A) -> LaunchRecord:
        record = attempt.home.launch(attempt.folder)
        if record is None:
            raise FileNotFoundError(f"{attempt.home.uri(attempt.folder)}/launch.json is missing")
        return record
