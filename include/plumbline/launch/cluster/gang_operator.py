"""One trial as a gang of pods, one for each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator

from plumbline.declarations import Provider
from plumbline.launch.cluster import gang
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.provider import launcher_of
from plumbline.launch.cluster.task import LaunchTask

Row = dict[str, Any]


class TrialGangOperator(LaunchTask, BaseOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Runs the planned trial that `spec` names ({campaign_id, trial_id, title}) as a gang of pods on the provider's cluster.

    One object owns the pods, so that deleting it deletes all: a headless Service, or the JobSet or TrainJob whose controller makes them.
    All pods start within the schedule timeout or none is kept, and the first that fails ends the gang with its class.
    Returns {trial_id, exit_code} of rank 0; raises the typed exception of the failure class after everything is stored and deleted.
    """

    template_fields = ("spec",)

    def __init__(self, *, provider: Provider, spec: Mapping[str, str], **kwargs: Any) -> None:
        launcher_of(provider)  # a wrong launcher is an error of the DAG file, not of a run
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
        self.attempt.hand_over_key(api)
        wanted = gang.gang(self.attempt.trial, requested_at=self.attempt.requested_at)
        owner = api.create(wanted.owner)
        for pod in gang.owned(wanted.pods, owner):
            api.create(pod)
