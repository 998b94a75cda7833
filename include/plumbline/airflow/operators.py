"""Operators that run one trial on a cluster: as a pod, or as a gang of pods. Stores hold the state between processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from airflow.sdk import BaseOperator

from plumbline.airflow.triggers import LaunchTrigger
from plumbline.declarations import Provider
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress
from plumbline.launch.cluster import manifests
from plumbline.launch.cluster.api import ApiRefused, ClusterApi
from plumbline.launch.cluster.manifests import gang
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe import CONTAINER, StopCause, decode_observation
from plumbline.launch.cluster.observe.polling import tolerate
from plumbline.launch.cluster.operate import adopt_or_announce, attempts, close_attempt
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.failures import BadDeclaration, Interrupted, TrialFailure, Unreachable, raise_failure
from plumbline.results import LaunchRecord

if TYPE_CHECKING:
    from kubernetes.client import V1Pod


if TYPE_CHECKING:
    from airflow.sdk import BaseOperator as _Base
else:
    _Base = object

T = TypeVar("T")
Row = dict[str, Any]
_log = logging.getLogger(__name__)

_AIRFLOW_SLACK_S = 600.0
"""The pods' own deadline ends them first, the trigger's follows if their node is dead; Airflow's, which deletes nothing, comes last."""


class LaunchOperator(_Base):  # type: ignore[misc]  # airflow's types are not followed
    """Mixed into an operator whose `spec` names a planned trial. Each method may run in a process of its own: the stores hold the state."""

    spec: Mapping[str, str]
    _attempt: Attempt | None = None

    def open(self) -> Row | None:
        """Take up or announce the attempt that this try is about; what `execute` returns if it turns out to be over already."""
        with _as_failure():
            self._attempt, record = adopt_or_announce(self.spec)
        return None if record is None else self._ended(record)

    @property
    def attempt(self) -> Attempt:
        """The attempt that this process works on."""
        if self._attempt is None:
            with _as_failure():
                self._attempt = Attempt.newest(self.spec)
        if self._attempt is None:
            raise FileNotFoundError(f"no attempt of {self.spec['trial_id']} was announced in campaign {self.spec['campaign_id']}")
        return self._attempt

    def create(self, creation: Callable[[ClusterApi], object]) -> None:
        """Create what `creation` asks for: all of it, or nothing is left of it and the refusal is recorded and raised as its class."""
        attempt = self.attempt
        # From here on until it is forgotten, whoever watches on this machine knows that something of the trial may run.
        progress.write_progress(ProgressLine(attempt.trial.trial_id, "queued", 0.0, "asked the cluster for a node"))
        try:
            creation(attempt.api())
            return
        except BadDeclaration as failure:  # found out here: nothing was asked of the cluster
            progress.remove_progress(attempt.trial.trial_id)
            with _as_failure():
                attempt.refuse(failure)
            raise
        except ApiRefused as refusal:
            stop = StopCause("refused", refusal.detail, refusal.status)
        except Unreachable as failure:
            stop = StopCause("unreachable", str(failure))
        with _as_failure():
            self._ended(close_attempt(attempt, stop=stop))
        raise AssertionError(f"a launch that was stopped ({stop.reason}) was classified as no failure")

    def keeping(self, action: Callable[[], T]) -> T:
        """The action's result; what keeps it from being done, or from being written down, as a failure class that the next try mends."""
        with _as_failure():
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
        seen = decode_observation(event)
        with _as_failure():
            if event["status"] == "started":
                self.attempt.started(seen)
            else:
                return self._ended(close_attempt(self.attempt, seen))
        return self.wait()

    def resume_execution(self, next_method: str, next_kwargs: Row | None, context: Any) -> Any:
        """As Airflow does it, but a trigger that failed or timed out leaves nothing on the cluster and nothing unrecorded.

        Airflow then resumes the task only in order to fail it, without calling anything of the operator's own.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except _deferral_errors() as error:
            stop = StopCause("killed", f"Airflow's own watch over the launch ended: {error}")
            with _as_failure():
                return self._ended(close_attempt(self.attempt, stop=stop))

    def on_kill(self) -> None:
        """Airflow ends this process within seconds: ask for the deletion of everything, and do nothing more.

        The preliminary record stands. Raises, so that whatever was going on (perhaps the creation of the next pod) does not go on.
        """
        if self._attempt is None:
            return
        tolerate("delete the launch's objects before the task is ended", self._attempt.kill, None)
        raise Interrupted("Airflow ended the task while its launch was being created or recorded; its objects were deleted")

    def _ended(self, record: LaunchRecord) -> Row:
        trial_id = self.spec["trial_id"]
        for pod in record.pods:
            _log.info("Pod %s on %s ended with exit code %s %s", pod.name, pod.node, pod.exit_code, pod.reason or "")
        if record.log_tail:
            _log.info("The last lines of rank 0:\n%s", record.log_tail)
        raise_failure(record, tolerate("read the trial's document", self.attempt.validity, None) if record.failure_class else None)
        return {"trial_id": trial_id, "exit_code": record.exit_code}


@contextmanager
def _as_failure() -> Iterator[None]:
    """Whatever keeps an attempt from being taken up or recorded, as a failure class: what is there is found again by the next try."""
    try:
        yield
    except FileNotFoundError:
        raise  # the store did answer
    except OSError as error:
        raise Unreachable(
            f"a result store does not answer: {type(error).__name__}: {error}; the next try takes the launch up again"
        ) from error
    except ApiRefused as refusal:
        # A token is rotated and then read anew; rights are given by a person.
        kind: type[TrialFailure] = Unreachable if refusal.status == 401 else BadDeclaration
        raise kind(
            f"the cluster does not let an earlier launch of the trial be looked for: {refusal}; see `plumbline cluster doctor`"
        ) from refusal


def _deferral_errors() -> tuple[type[BaseException], ...]:
    from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

    return TaskDeferralError, TaskDeferralTimeout


class TrialGangOperator(LaunchOperator, BaseOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) as a gang of pods on the provider's cluster.

    One object owns the pods, so that deleting it deletes all: a headless Service, or the JobSet or TrainJob whose controller makes them.
    All pods start within the schedule timeout or none is kept, and the first that fails ends the gang with its class.
    Returns {trial_id, exit_code} of rank 0; raises the typed exception of the failure class after everything is stored and deleted.
    """

    template_fields = ("spec",)

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        cluster_declaration(provider)  # a wrong launcher is an error of the DAG file, not of a run
        super().__init__(do_xcom_push=False, **kwargs)
        self.provider, self.spec = provider, spec

    def execute(self, context: Any) -> Row:
        """Create the gang and wait for it in the triggerer; or take up what an earlier try of this task left, also a part of it."""
        if (over := self.open()) is not None:
            return over
        # Of a gang that ran already a missing pod is a failure; to create it again would hide that from the others.
        if self.attempt.started_at is None:
            self.create(self._gang)
        return self.wait()

    def _gang(self, api: ClusterApi) -> None:
        self.attempt.create_key_secret(api)
        wanted = gang.gang_manifests(self.attempt.trial, requested_at=self.attempt.requested_at)
        owner = api.create(wanted.owner)
        for pod in gang.with_owner(wanted.pods, owner):
            api.create(pod)


class TrialPodOperator(LaunchOperator, KubernetesPodOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) as a pod on the provider's cluster.

    KubernetesPodOperator builds the pod (with its labels for DAG, run and try, and the site's pod_mutation_hook) from the trial's manifest and
    holds the connection. What it does about a pod's life is replaced: it tells a pod that vanished from one that succeeded by nothing,
    reports every ending alike, and starts anew where it meets a finished pod, whose result lies in the store.
    Returns {trial_id, exit_code}; raises the typed exception of the trial's failure class after everything is stored and deleted.
    """

    # The pod's own fields are no templates: they come from the trial, and rendered fields are stored and shown.
    template_fields = ("spec",)

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        launcher = cluster_declaration(provider)
        super().__init__(
            kubernetes_conn_id=launcher.connection,
            namespace=launcher.namespace,
            base_container_name=CONTAINER,
            # A second creation must meet the first: by its name a pod is found again, whoever died in between.
            random_name_suffix=False,
            durable=True,
            # Hours of waiting must not occupy a worker.
            deferrable=True,
            # Results travel through the store; the side car that XCom needs would run beside the measurement.
            do_xcom_push=False,
            # The default prints the whole pod, with whatever it was given.
            log_pod_spec_on_failure=False,
            # GPUs are paid for until their pod is gone.
            on_finish_action="delete_pod",
            on_kill_action="delete_pod",
            # The last words of a crash stand in the pod's status, even when its log cannot be read any more.
            termination_message_policy="FallbackToLogsOnError",
            **kwargs,
        )
        self.provider, self.spec = provider, spec

    def execute(self, context: Any) -> Row:
        """Create the pod and wait for it in the triggerer; or take up the one that an earlier try of this task left."""
        if (over := self.open()) is not None:
            return over
        if (pending := self.attempt.replaced.pending) is not None:
            pending.late = True
            return self._replace(context)
        if self.attempt.started_at is not None:
            return self.wait()
        return self._launch(context)

    def trigger_reentry(self, context: Any, event: Row) -> Row:
        """Back from the triggerer, as any launch; or the pod asks to be deleted, as the trial's fault declares."""
        if event["status"] == "deletion_asked":
            seen = decode_observation(event)
            if self.keeping(lambda: attempts.begin_replacement(self.attempt, seen)):
                return self._replace(context)
            event = {**event, "status": "finished"}
        return super().trigger_reentry(context, event)

    def _replace(self, context: Any) -> NoReturn:
        """Delete the pod and create the one that takes its place."""
        self.create(lambda api: attempts.delete_replaced_pod(self.attempt, api))
        self._launch(context)

    def _launch(self, context: Any) -> NoReturn:
        self.create(self._declare)
        super().execute(context)  # it defers
        raise AssertionError("KubernetesPodOperator did not defer")

    def get_or_create_pod(self, pod_request_obj: V1Pod, context: Any) -> V1Pod:
        """Create the pod, or adopt the one of this very attempt in whatever state it is: its result lies in the store."""
        row = PodGenerator.serialize_pod(pod_request_obj)

        def creation(api: ClusterApi) -> None:
            self.attempt.create_key_secret(api)
            api.create(row)

        self.create(creation)
        self.keeping(lambda: attempts.confirm_replacement(self.attempt))
        return pod_request_obj

    def invoke_defer_method(self, last_log_time: Any = None, context: Any = None) -> None:
        """Wait by our own trigger, which survives outages of the cluster and loses no pod's last state."""
        self.wait()

    def _declare(self, api: ClusterApi) -> None:
        """The pod that KubernetesPodOperator starts from: the trial's manifest. It reads the connection, too: better here, where that can fail."""
        api.open()
        attempt = self.attempt
        self.pod_template_dict = manifests.pod_manifest(
            attempt.trial, requested_at=attempt.requested_at, deletions=attempt.replaced.deletions
        )


def operator_for(*, gang: bool) -> type[TrialPodOperator]:
    """The operator of trials that run in one pod, or in a gang of pods."""
    return TrialGangOperator if gang else TrialPodOperator
