"""The house operator: one trial as one pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator

from plumbline.declarations import Provider
from plumbline.launch.cluster import manifest, replacement
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.payload import decode
from plumbline.launch.cluster.pod_state import CONTAINER
from plumbline.launch.cluster.provider import launcher_of
from plumbline.launch.cluster.task import LaunchTask

if TYPE_CHECKING:
    from kubernetes.client import V1Pod

Row = dict[str, Any]


class TrialPodOperator(LaunchTask, KubernetesPodOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) as a pod on the provider's cluster.

    KubernetesPodOperator builds the pod (with its labels for DAG, run and try, and the site's pod_mutation_hook) from the trial's manifest and
    holds the connection. What it does about a pod's life is replaced: it tells a pod that vanished from one that succeeded by nothing,
    reports every ending alike, and starts anew where it meets a finished pod, whose result lies in the store.
    Returns {trial_id, exit_code}; raises the typed exception of the trial's failure class after everything is stored and deleted.
    """

    # The pod's own fields are no templates: they come from the trial, and rendered fields are stored and shown.
    template_fields = ("spec",)

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        launcher = launcher_of(provider)
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
            seen = decode(event)
            if self.keeping(lambda: replacement.begin(self.attempt, seen)):
                return self._replace(context)
            event = {**event, "status": "finished"}
        return super().trigger_reentry(context, event)

    def _replace(self, context: Any) -> NoReturn:
        """Delete the pod and create the one that takes its place."""
        self.create(lambda api: replacement.delete(self.attempt, api))
        self._launch(context)

    def _launch(self, context: Any) -> NoReturn:
        self.create(self._declare)
        super().execute(context)  # it defers
        raise AssertionError("KubernetesPodOperator did not defer")

    def get_or_create_pod(self, pod_request_obj: V1Pod, context: Any) -> V1Pod:
        """Create the pod, or adopt the one of this very attempt in whatever state it is: its result lies in the store."""
        row = PodGenerator.serialize_pod(pod_request_obj)

        def creation(api: ClusterApi) -> None:
            self.attempt.hand_over_key(api)
            api.create(row)

        self.create(creation)
        self.keeping(lambda: replacement.created(self.attempt))
        return pod_request_obj

    def invoke_defer_method(self, last_log_time: Any = None, context: Any = None) -> None:
        """Wait by our own trigger, which survives outages of the cluster and loses no pod's last state."""
        self.wait()

    def _declare(self, api: ClusterApi) -> None:
        """The pod that KubernetesPodOperator starts from: the trial's manifest. It reads the connection, too: better here, where that can fail."""
        api.open()
        attempt = self.attempt
        self.pod_template_dict = manifest.pod(attempt.trial, requested_at=attempt.requested_at, deletions=attempt.replaced.deletions)
