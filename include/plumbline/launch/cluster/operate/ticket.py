"""What finds a launch on a cluster again: the row of its trigger, which Airflow stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from plumbline.launch.cluster import names
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe.replicas import REPLICAS_POLL_S
from plumbline.launch.cluster.operate.attempts import Attempt


@dataclass(eq=False, repr=False)
class ClusterTicket:
    """A launch's pods and their time limits.

    It holds ids only: the Airflow connection is read where it is used. `owner`: {"apiVersion", "kind", "name"} of the object that owns a gang's
    pods, None for a single pod. `known`: names of existing pods. `due_deletion`: the number of the next deletion that the trial may request, 0
    for none. `requested_at`, `deadline`: seconds since the epoch. `started`: the pods started before. `campaign_id`: empty in rows of versions
    whose operators stored the start. `patience_s`: how long the kubelet may fail to start a container: five tries, at 0, 10, 30, 70 and 150 s,
    outlast a registry's restart. `servers`: those of its Deployment at the start, whose number is stored at every change; 0 without one.
    `grace_s`: see WatchLimits. `secret`: the Secret that is deleted with the pods. `providers_nodes`: see LaunchObservation.
    """

    connection: str
    namespace: str
    selector: str
    launch: str
    trial_id: str
    expected: int
    owner: dict[str, str] | None
    requested_at: float
    schedule_timeout_s: float
    startup_timeout_s: float
    deadline: float
    unreachable_timeout_s: float
    poll_s: float
    started: bool = False
    known: Sequence[str] = ()
    grace_s: float = 60.0
    patience_s: float = 160.0
    log_every_s: float = 10.0
    request_timeout_s: float = 20.0
    due_deletion: int = 0
    secret: str | None = None
    campaign_id: str = ""
    servers: int = 0
    providers_nodes: bool = False

    @property
    def row(self) -> dict[str, Any]:
        """Its JSON form."""
        values = {field.name: getattr(self, field.name) for field in fields(ClusterTicket)}
        return {**values, "known": list(self.known)}

    @property
    def owner_row(self) -> names.Row | None:
        """The owner as a row of the API with its kind and name."""
        return None if self.owner is None else {"kind": self.owner["kind"], "metadata": {"name": self.owner["name"]}}


def ticket_of(attempt: Attempt) -> ClusterTicket:
    """The ticket of an attempt. A pod that replaces another has the start time limit of the first one; the trial's own limit covers all."""
    trial, owner, requested_at, replaced = attempt.trial, attempt.owner, attempt.requested_at, len(attempt.replaced.done)
    launcher, serving = cluster_declaration(trial.provider), names.serving_of(trial)
    declared = trial.workload.pod_deletions
    grace_s = 60.0
    return ClusterTicket(
        connection=launcher.connection,
        namespace=launcher.namespace,
        selector=names.selector(trial),
        launch=names.launch_name(trial),
        trial_id=trial.trial_id,
        expected=trial.workload.nodes,
        owner=owner and {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]},
        requested_at=(attempt.replaced.since or requested_at).timestamp(),
        schedule_timeout_s=launcher.schedule_timeout,
        startup_timeout_s=launcher.startup_timeout,
        # For pods that their own `timeout` (activeDeadlineSeconds, from the node on) did not end.
        deadline=requested_at.timestamp() + launcher.schedule_timeout + launcher.timeout + grace_s,
        unreachable_timeout_s=launcher.unreachable_timeout,
        poll_s=min(launcher.poll, REPLICAS_POLL_S) if serving else launcher.poll,
        started=attempt.started_at is not None,
        known=attempt.pod_names,
        grace_s=grace_s,
        due_deletion=replaced + 1 if replaced < declared else 0,
        secret=attempt.secret,
        campaign_id=trial.campaign_id,
        servers=serving.scaling.at_start if serving else 0,
        providers_nodes=attempt.providers_nodes,
    )
