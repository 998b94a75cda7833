"""What both operators do with an attempt once its objects are asked for: wait in the triggerer, come back, close, kill."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from plumbline.harness.progress import ProgressLine
from plumbline.launch import progress
from plumbline.launch.cluster.api import ClusterApi, Refused
from plumbline.launch.cluster.attempt import Attempt
from plumbline.launch.cluster.base import Stop
from plumbline.launch.cluster.lifecycle import close, take_up
from plumbline.launch.cluster.look import tolerated
from plumbline.launch.cluster.payload import decode
from plumbline.launch.cluster.trigger import LaunchTrigger
from plumbline.launch.failures import BadDeclaration, Interrupted, TrialFailure, Unreachable, raise_for
from plumbline.results import LaunchRecord

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator as _Base
else:
    _Base = object

T = TypeVar("T")
Row = dict[str, Any]
_log = logging.getLogger(__name__)

_AIRFLOW_SLACK_S = 600.0
"""The pods' own deadline ends them first, the trigger's follows if their node is dead; Airflow's, which deletes nothing, comes last."""


class LaunchTask(_Base):  # type: ignore[misc]  # airflow's types are not followed
    """Mixed into an operator whose `spec` names a planned trial. Each method may run in a process of its own: the stores hold the state."""

    spec: Mapping[str, str]
    _attempt: Attempt | None = None

    def open(self) -> Row | None:
        """Take up or announce the attempt that this try is about; what `execute` returns if it turns out to be over already."""
        with _typed():
            self._attempt, record = take_up(self.spec)
        return None if record is None else self._ended(record)

    @property
    def attempt(self) -> Attempt:
        """The attempt that this process works on."""
        if self._attempt is None:
            with _typed():
                self._attempt = Attempt.newest(self.spec)
        if self._attempt is None:
            raise FileNotFoundError(f"no attempt of {self.spec['trial_id']} was announced in campaign {self.spec['campaign_id']}")
        return self._attempt

    def create(self, creation: Callable[[ClusterApi], object]) -> None:
        """Create what `creation` asks for: all of it, or nothing is left of it and the refusal is recorded and raised as its class."""
        attempt = self.attempt
        # From here on until it is forgotten, whoever watches on this machine knows that something of the trial may run.
        progress.tell(ProgressLine(attempt.trial.trial_id, "queued", 0.0, "asked the cluster for a node"))
        try:
            creation(attempt.api())
            return
        except BadDeclaration as failure:  # found out here: nothing was asked of the cluster
            progress.forget(attempt.trial.trial_id)
            with _typed():
                attempt.refuse(failure)
            raise
        except Refused as refusal:
            stop = Stop("refused", refusal.detail, refusal.status)
        except Unreachable as failure:
            stop = Stop("unreachable", str(failure))
        with _typed():
            self._ended(close(attempt, stop=stop))
        raise AssertionError(f"a launch that was stopped ({stop.reason}) was classified as no failure")

    def keeping(self, action: Callable[[], T]) -> T:
        """The action's result; what keeps it from being done, or from being written down, as a failure class that the next try mends."""
        with _typed():
            return action()

    def wait(self) -> NoReturn:
        """Defer until the pods started, or until they are over."""
        attempt = self.attempt
        trigger = LaunchTrigger.of(
            attempt.trial,
            attempt.requested_at,
            owner=attempt.owner,
            known=attempt.pod_names,
            started=attempt.started_at is not None,
            replaced=len(attempt.replaced.done),
            since=attempt.replaced.since,
            secret=attempt.secret,
        )
        # From now on, and not from the request: a clock that was set since then must not end a healthy launch.
        left = trigger.deadline - trigger.requested_at + attempt.launcher.unreachable_timeout + _AIRFLOW_SLACK_S
        self.defer(trigger=trigger, method_name="trigger_reentry", timeout=timedelta(seconds=left))
        raise AssertionError("defer() returned")

    def trigger_reentry(self, context: Any, event: Row) -> Row:
        """Back from the triggerer: the pods started (then wait on), or it is over."""
        seen = decode(event)
        with _typed():
            if event["status"] == "started":
                self.attempt.started(seen)
            else:
                return self._ended(close(self.attempt, seen))
        return self.wait()

    def resume_execution(self, next_method: str, next_kwargs: Row | None, context: Any) -> Any:
        """As Airflow does it, but a trigger that failed or timed out leaves nothing on the cluster and nothing unrecorded.

        Airflow then resumes the task only in order to fail it, without calling anything of the operator's own.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except _deferral_errors() as error:
            stop = Stop("killed", f"Airflow's own watch over the launch ended: {error}")
            with _typed():
                return self._ended(close(self.attempt, stop=stop))

    def on_kill(self) -> None:
        """Airflow ends this process within seconds: ask for the deletion of everything, and do nothing more.

        The preliminary record stands. Raises, so that whatever was going on (perhaps the creation of the next pod) does not go on.
        """
        if self._attempt is None:
            return
        tolerated("delete the launch's objects before the task is ended", self._attempt.kill, None)
        raise Interrupted("Airflow ended the task while its launch was being created or recorded; its objects were deleted")

    def _ended(self, record: LaunchRecord) -> Row:
        trial_id = self.spec["trial_id"]
        for pod in record.pods:
            _log.info("Pod %s on %s ended with exit code %s %s", pod.name, pod.node, pod.exit_code, pod.reason or "")
        if record.log_tail:
            _log.info("The last lines of rank 0:\n%s", record.log_tail)
        raise_for(record, tolerated("read the trial's document", self.attempt.validity, None) if record.failure_class else None)
        return {"trial_id": trial_id, "exit_code": record.exit_code}


@contextmanager
def _typed() -> Iterator[None]:
    """Whatever keeps an attempt from being taken up or recorded, as a failure class: what is there is found again by the next try."""
    try:
        yield
    except FileNotFoundError:
        raise  # the store did answer
    except OSError as error:
        raise Unreachable(
            f"a result store does not answer: {type(error).__name__}: {error}; the next try takes the launch up again"
        ) from error
    except Refused as refusal:
        # A token is rotated and then read anew; rights are given by a person.
        kind: type[TrialFailure] = Unreachable if refusal.status == 401 else BadDeclaration
        raise kind(
            f"the cluster does not let an earlier launch of the trial be looked for: {refusal}; see `plumbline cluster doctor`"
        ) from refusal


def _deferral_errors() -> tuple[type[BaseException], ...]:
    from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

    return TaskDeferralError, TaskDeferralTimeout
