"""DAG runs as the pages inside Airflow's API server need them: they start `finding_action` and `rerun`, and list what runs now.

The server may not write to the archive, workers may. The task SDK starts runs from within a task only, so that this needs Airflow's models."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf as settings
from airflow.exceptions import DagRunAlreadyExists
from airflow.models import DagModel, DagRun, TaskInstance
from airflow.models.dag import DagTag
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import and_, case, func, select
from sqlalchemy.exc import IntegrityError

from plumbline.airflow.defaults import OWNER
from plumbline.airflow.signed_requests import NoSigningKey, sign
from plumbline.airflow.versions import start_run
from plumbline.answers.active_runs import ActiveRun
from plumbline.workflows.finding_action import ActionNotStarted, ActionRun, AlreadyStarted, RunOfDag
from plumbline.workflows.plan import ACTION_DAG, DECISION_DAG, RERUN_DAG, paused_text

_NEWEST = 200
_TRIAL = ".trial.run"
"""The task of a trial, in each lane of a benchmark."""
_DAGS = (ACTION_DAG, RERUN_DAG)


class ActionRuns:
    def start(self, request: RunOfDag, key: str, by: str) -> ActionRun:
        """Start the run of a request. AlreadyStarted if one with this key did not fail; NotStarted if a DAG that it needs is paused, or not read
        by Airflow yet, or if Airflow has no key to sign with."""
        earlier = self._runs(key)
        if before := next((run for run in earlier if run.state != "failed"), None):
            raise AlreadyStarted(before)
        _require_unpaused(request)
        run_id = f"{key}_{len(earlier)}"
        try:
            conf = sign(by, request.dag_id, run_id, request.to_conf(), datetime.now(timezone.utc))
        except NoSigningKey as missing:
            raise ActionNotStarted(str(missing)) from None
        try:
            started = start_run(
                request.dag_id,
                triggered_by=DagRunTriggeredByType.UI,
                run_id=run_id,
                run_type=DagRunType.OPERATOR_TRIGGERED,  # as of each run that a program starts; the signature is the proof
                conf=conf,
                triggering_user_name=by,
            )
        except (DagRunAlreadyExists, IntegrityError):  # another replica started it at the same moment
            raise AlreadyStarted(self._runs(key)[0]) from None
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


def _require_unpaused(request: RunOfDag) -> None:
    """NotStarted: a run of a paused DAG would wait, and a task that starts one fails half a minute later."""
    needed = [name for name in (request.dag_id, request.starts) if name]
    with create_session() as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(needed), ~DagModel.is_stale))
        paused = {row.dag_id: row.is_paused for row in rows}
    for name in needed:
        if name not in paused:
            raise ActionNotStarted(f"Airflow has not read the DAG {name} yet; expected it among its DAGs")
        if paused[name]:
            raise ActionNotStarted(f"{paused_text(name)}. Then send this again", _dag_path(name))


def active_runs() -> list[ActiveRun]:
    """Running and queued runs of Plumbline's DAGs, in one statement. A question of `baseline_decision` waits for a person and is left out."""
    trial = and_(
        TaskInstance.dag_id == DagRun.dag_id,
        TaskInstance.run_id == DagRun.run_id,
        TaskInstance.task_id.endswith(_TRIAL, autoescape=True),
        TaskInstance.map_index >= 0,  # below: a lane whose trials are not planned yet, or that has none
    )
    columns = (DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.start_date, DagRun.queued_at)
    done = func.count(case((TaskInstance.state.in_(State.finished), 1)))
    query = (
        select(*columns, func.count(TaskInstance.id).label("trials"), done.label("done"))
        .outerjoin(TaskInstance, trial)
        .where(DagRun.state.in_((DagRunState.RUNNING, DagRunState.QUEUED)), DagRun.dag_id != DECISION_DAG)
        .where(DagRun.dag_id.in_(select(DagTag.dag_id).where(DagTag.name == OWNER)))
        .group_by(*columns)
    )
    with create_session() as session:
        rows = sorted(session.execute(query), key=lambda row: (_state(row) != "running", row.id))
    return [
        ActiveRun(
            row.dag_id,
            "running" if _state(row) == "running" else "queued",
            row.start_date if _state(row) == "running" else row.queued_at,
            row.trials,
            row.done,
            _path(row.dag_id, row.run_id),
        )
        for row in rows
    ]


def _run(run: Any) -> ActionRun:
    conf = run.conf or {}
    why = str(conf.get("why", conf.get("reason", "")))
    return ActionRun(str(conf.get("action", "rerun")), run.triggering_user_name or "", why, _state(run), _path(run.dag_id, run.run_id))


def _state(run: Any) -> str:
    return str(getattr(run.state, "value", run.state))


def _path(dag_id: str, run_id: str) -> str:
    return f"{_dag_path(dag_id)}/runs/{quote(run_id, safe='')}"


def _dag_path(dag_id: str) -> str:
    # Behind a base_url with a path, Airflow's pages are below that path.
    return f"{urlsplit(settings.get('api', 'base_url', fallback='')).path.rstrip('/')}/dags/{dag_id}"
