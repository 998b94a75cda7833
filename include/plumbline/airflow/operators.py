"""Operators that run one trial on a cluster, as a pod or a gang of pods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger

from plumbline.airflow.retries import failing_for_good, request_of
from plumbline.airflow.triggers import EARLIEST_S, LaunchTrigger, RemoteTrigger
from plumbline.airflow.versions import TaskDeferralError, TaskDeferralTimeout
from plumbline.declarations import Provider
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe.observation import CONTAINER
from plumbline.launch.failures import ApiRefused, BadDeclaration, Interrupted, TrialFailure, Unreachable, raise_failure
from plumbline.launch.registry import launcher_for
from plumbline.launch.remote import CANCEL_S, RemoteLauncher, Stop, tolerate
from plumbline.results import LaunchRecord
from plumbline.workflows.collect import collect_or_leave

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator as _Base
    from kubernetes.client import V1Pod
else:
    _Base = object

Row = dict[str, Any]
_log = logging.getLogger(__name__)

_AIRFLOW_SLACK_S = 600.0
"""Airflow's timeout, which deletes nothing, comes after the pods' deadline and the trigger's."""


class LaunchOperator(_Base):  # type: ignore[misc]  # airflow's types are not followed
    """Mixin of operators whose `spec` names a planned trial of a provider with a RemoteLauncher: submit, wait in the triggerer, collect.

    Each method may run in another process: the stores hold the state.
    """

    found_elsewhere = True
    """See `airflow.defaults.found_elsewhere`."""
    provider: Provider
    spec: Mapping[str, str]
    _attempt: Any = None

    @property
    def launcher(self) -> RemoteLauncher[Any]:
        launcher = launcher_for(self.provider)
        if not isinstance(launcher, RemoteLauncher):
            raise BadDeclaration(f"{self.provider.name}: trials of launcher.kind {self.provider.launcher.kind} end with their task")
        return launcher

    def open(self, context: Any) -> Row | None:
        """Adopt or announce this try's attempt; the row that the task returns, if the attempt has ended."""
        with _as_failure():
            self._attempt, record = self.launcher.adopt(self.spec, request_of(context["ti"]))
        return None if record is None else self._ended(record)

    @property
    def attempt(self) -> Any:
        if self._attempt is None:
            with _as_failure():
                self._attempt = self.launcher.newest(self.spec)
        if self._attempt is None:
            raise FileNotFoundError(f"campaign {self.spec['campaign_id']} has no announced attempt of {self.spec['trial_id']}")
        return self._attempt

    def create(self, step: Callable[[], object]) -> None:
        """Run a step of the submission completely; else nothing is left, and the refusal is recorded and raised as its failure class."""
        attempt = self.attempt
        with _as_failure():
            refused = self.launcher.create(attempt, step)
            if refused is None:
                return
            self._ended(refused)
        raise AssertionError(f"a refused launch ({refused.failure_detail}) has no failure class")

    def trigger(self) -> BaseTrigger:
        """The trigger of the attempt."""
        launcher = type(self.launcher)
        return RemoteTrigger(f"{launcher.__module__}:{launcher.__qualname__}", self.launcher.ticket(self.attempt), EARLIEST_S)

    def wait(self) -> NoReturn:
        """Defer until the launch ended."""
        # Airflow's limit, which ends nothing, comes after those of the launch and of the trigger.
        left = self.launcher.wait_s(self.attempt) + _AIRFLOW_SLACK_S
        self.defer(trigger=self.trigger(), method_name="trigger_reentry", timeout=timedelta(seconds=left))
        raise AssertionError("defer() returned")

    def trigger_reentry(self, context: Any, event: Row) -> Row:
        """Resume from the triggerer: the launch ended."""
        with _as_failure():
            return self._ended(self.launcher.collect(self.attempt, event))

    @failing_for_good(launches=True)
    def resume_execution(self, next_method: str, next_kwargs: Row | None, context: Any) -> Any:
        """Resume; a failed or timed-out trigger also cleans up the cluster and records the attempt, where Airflow would only fail the task."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout) as error:
            stop = Stop("killed", f"Airflow's trigger ended: {error}")
            with _as_failure():
                return self._ended(self.launcher.collect(self.attempt, stop=stop))

    def on_kill(self) -> None:
        """Request the deletion of everything: Airflow ends this process within seconds. The preliminary record stays.

        Raises Interrupted, so that work in progress, such as the creation of the next pod, stops.
        """
        if self._attempt is None:
            return
        ticket = self.launcher.ticket(self._attempt)
        cancel = partial(self.launcher.cancel, ticket, patience_s=CANCEL_S, timeout_s=CANCEL_S)
        tolerate("delete the launch's objects before the task is ended", cancel, None)
        raise Interrupted("Airflow ended the task while its launch was being created or recorded; its objects were deleted")

    def _ended(self, record: LaunchRecord) -> Row:
        for pod in record.pods:
            _log.info("Pod %s on %s ended with exit code %s %s", pod.name, pod.node, pod.exit_code, pod.reason or "")
        if record.log_tail:
            _log.info("The last lines of rank 0:\n%s", record.log_tail)
        collect_or_leave(self.spec)
        raise_failure(record, tolerate("read the trial's document", self.attempt.validity, None) if record.failure_class else None)
        return {"trial_id": self.spec["trial_id"], "exit_code": record.exit_code}


@contextmanager
def _as_failure() -> Iterator[None]:
    """Raise errors of stores and the cluster as failure classes: the next try adopts the attempt."""
    try:
        yield
    except FileNotFoundError:
        raise  # the store answered
    except OSError as error:
        raise Unreachable(f"a result store does not answer: {type(error).__name__}: {error}; the next try adopts the launch") from error
    except ApiRefused as refusal:
        # A token is rotated and read again; a person grants permissions.
        kind: type[TrialFailure] = Unreachable if refusal.status == 401 else BadDeclaration
        raise kind(f"the cluster refuses to list earlier launches of the trial: {refusal}; see `plumbline cluster doctor`") from refusal


class RemoteTrialOperator(LaunchOperator, BaseOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) by the provider's RemoteLauncher.

    Returns {trial_id, exit_code}; raises the typed exception of the failure class after everything is stored and ended.
    """

    # Only `spec`: rendered fields are stored and shown.
    template_fields = ("spec",)

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(do_xcom_push=False, **kwargs)
        self.provider, self.spec = provider, spec

    @failing_for_good(launches=True)
    def execute(self, context: Any) -> Row:
        """Submit the trial, or adopt all or part of an earlier try's, and wait for it in the triggerer."""
        if (over := self.open(context)) is not None:
            return over
        if not self.attempt.began:
            self.create(lambda: self.launcher.submit(self.attempt))
        return self.wait()


class ClusterOperator(LaunchOperator):
    """Mixin of operators whose trials are pods."""

    @property
    def launcher(self) -> ClusterLauncher:
        return ClusterLauncher()

    def trigger(self) -> BaseTrigger:
        return LaunchTrigger.of(self.attempt)


class TrialGangOperator(ClusterOperator, RemoteTrialOperator):
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) as a gang of pods on the provider's cluster.

    One object owns the pods, so that deleting it deletes all: a headless Service, or the JobSet whose controller creates them.
    All pods start within the schedule timeout or none stays; the first failure ends the gang with its class.
    Returns {trial_id, exit_code} of rank 0; raises the typed exception of the failure class after everything is stored and deleted.
    """

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        cluster_declaration(provider)  # a wrong launcher is an error of the DAG file
        super().__init__(provider=provider, spec=spec, **kwargs)


class TrialPodOperator(ClusterOperator, KubernetesPodOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) as a pod on the provider's cluster.

    KubernetesPodOperator builds the pod (labels for DAG, run and try, the site's pod_mutation_hook) from the trial's manifest and holds the
    connection. Its handling of the pod's life is replaced: it takes a vanished pod for a success and restarts a finished one.
    Returns {trial_id, exit_code}; raises the typed exception of the trial's failure class after everything is stored and deleted.
    """

    # Only `spec`: rendered fields are stored and shown.
    template_fields = ("spec",)

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        launcher = cluster_declaration(provider)
        super().__init__(
            kubernetes_conn_id=launcher.connection,
            namespace=launcher.namespace,
            base_container_name=CONTAINER,
            # A stable name, so that a second creation meets the first.
            random_name_suffix=False,
            durable=True,
            # Hours of waiting must not occupy a worker.
            deferrable=True,
            # Results travel through the store; XCom's sidecar would run beside the measurement.
            do_xcom_push=False,
            # The default logs the whole pod with its environment.
            log_pod_spec_on_failure=False,
            # GPUs cost money until their pod is deleted.
            on_finish_action="delete_pod",
            on_kill_action="delete_pod",
            # So that the pod's status has the end of a crash's log.
            termination_message_policy="FallbackToLogsOnError",
            **kwargs,
        )
        self.provider, self.spec = provider, spec

    @failing_for_good(launches=True)
    def execute(self, context: Any) -> Row:
        """Create the pod, or adopt an earlier try's, and wait for it in the triggerer."""
        if (over := self.open(context)) is not None:
            return over
        if (pending := self.attempt.replaced.pending) is not None:
            pending.late = True
            return self._replace(context)
        if self.attempt.started_at is not None:
            return self.wait()
        return self._launch(context)

    def trigger_reentry(self, context: Any, event: Row) -> Row:
        """Resume from the triggerer; or the pod requests its deletion, as declared by the trial."""
        if event["status"] == "deletion_asked":
            with _as_failure():
                begun = self.launcher.begin_replacement(self.attempt, event)
            if begun:
                return self._replace(context)
            event = {**event, "status": "finished"}
        return super().trigger_reentry(context, event)

    def _replace(self, context: Any) -> NoReturn:
        self.create(lambda: self.launcher.delete_replaced(self.attempt))
        self._launch(context)

    def _launch(self, context: Any) -> NoReturn:
        self.create(self._prepare_pod)
        super().execute(context)  # it defers
        raise AssertionError("KubernetesPodOperator did not defer")

    def get_or_create_pod(self, pod_request_obj: V1Pod, context: Any) -> V1Pod:
        """Create the pod, or adopt this attempt's in any state: its result is in the store."""
        row = PodGenerator.serialize_pod(pod_request_obj)
        self.create(lambda: self.launcher.submit(self.attempt, row))
        return pod_request_obj

    def invoke_defer_method(self, last_log_time: Any = None, context: Any = None) -> None:
        """Wait with our own trigger, which survives outages of the cluster and keeps the pod's last state."""
        self.wait()

    def _prepare_pod(self) -> None:
        """Set the pod template to the trial's manifest, and read the connection here, where errors are classified."""
        self.attempt.api().open()
        self.pod_template_dict = self.launcher.pod(self.attempt)


def operator_for(*, gang: bool) -> type[TrialPodOperator]:
    return TrialGangOperator if gang else TrialPodOperator


def remote_operator(*, gang: bool) -> type[RemoteTrialOperator]:
    """The operator of every other launcher that outlasts a task."""
    return RemoteTrialOperator
