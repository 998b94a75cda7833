"""Runs of the DAGs `finding_action` and `rerun`, started by the pages inside Airflow's API server.

The server may not write to the archive, workers may. The task SDK starts runs from within a task only, so that this needs Airflow's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.api.common.trigger_dag import trigger_dag
from airflow.configuration import conf as settings
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models import DagRun
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from plumbline.workflows.finding_action import ActionRun, AlreadyStarted, NotStarted, RunOfDag
from plumbline.workflows.plan import ACTION_DAG, RERUN_DAG

_NEWEST = 200
_DAGS = (ACTION_DAG, RERUN_DAG)


class ActionRuns:
    """Starts runs and lists them."""

    def start(self, request: RunOfDag, key: str, by: str) -> ActionRun:
        """Start the run of a request. AlreadyStarted if one with this key did not fail; NotStarted before Airflow has read the DAG."""
        earlier = self._runs(key)
        if before := next((run for run in earlier if run.state != "failed"), None):
            raise AlreadyStarted(before)
        run_id = f"{key}_{len(earlier)}"
        try:
            started = trigger_dag(
                request.dag_id,
                triggered_by=DagRunTriggeredByType.UI,
                run_id=run_id,
                conf=request.to_conf(),
                triggering_user_name=by,
            )
        except (DagRunAlreadyExists, IntegrityError):  # another replica started it at the same moment
            raise AlreadyStarted(self._runs(key)[0]) from None
        except DagNotFound:
            raise NotStarted(f"Airflow has not read the DAG {request.dag_id} yet; expected it among its DAGs") from None
        return _run(started)

    def latest(self) -> Mapping[str, ActionRun]:
        """The newest runs by key."""
        query = select(DagRun).where(DagRun.dag_id.in_(_DAGS)).order_by(DagRun.id.desc()).limit(_NEWEST)
        with create_session() as session:
            newest = [(str(run.run_id).rpartition("_")[0], _run(run)) for run in session.scalars(query)]
        return dict(reversed(newest))

    def _runs(self, key: str) -> list[ActionRun]:
        """Newest first."""
        query = select(DagRun).where(DagRun.dag_id.in_(_DAGS), DagRun.run_id.startswith(f"{key}_", autoescape=True))
        with create_session() as session:
            return [_run(run) for run in session.scalars(query.order_by(DagRun.id.desc()))]


def _run(run: Any) -> ActionRun:
    conf = run.conf or {}
    state = str(getattr(run.state, "value", run.state))
    # Behind a base_url with a path, Airflow's pages are below that path.
    path = f"{urlsplit(settings.get('api', 'base_url', fallback='')).path.rstrip('/')}/dags/{run.dag_id}/runs/{quote(run.run_id, safe='')}"
    why = str(conf.get("why", conf.get("reason", "")))
    return ActionRun(str(conf.get("action", "rerun")), run.triggering_user_name or "", why, state, path)
