"""State of the running Airflow, read from a task; `python -m plumbline.airflow.health FOLDER` parses Plumbline's DAG files in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
from airflow.sdk.exceptions import AirflowRuntimeError

from plumbline.airflow.defaults import HOUSEKEEPING
from plumbline.airflow.versions import TASKS_READ_DAGS, as_scheduled, conf, dag_state, parse_bundle
from plumbline.workflows.airflow_view import DagFiles, DeclaredDag, DeployedDag

_LIMIT_S = 300
_BUILDS = b"plumbline.airflow"
_OURS_ALONE = {
    "AIRFLOW__CORE__DAG_DISCOVERY_SAFE_MODE": "True",
    "AIRFLOW__CORE__MIGHT_CONTAIN_DAG_CALLABLE": "plumbline.airflow.health.is_ours",
}
_DATABASE = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")


def is_ours(file_path: str, zip_file: Any = None) -> bool:
    """Airflow's `[core] might_contain_dag_callable` of the parse below: whether a file builds DAGs with Plumbline. Files of other teams in the same
    bundle are neither run nor judged. One that cannot be read may be ours: it is parsed, and that error is found."""
    try:
        return zip_file is None and _BUILDS in Path(file_path).read_bytes()
    except OSError:
        return True


def read_dag_files(bundle: Path) -> DagFiles:
    """What Plumbline's DAG files in a bundle declare. RuntimeError if parsing itself fails."""
    # A task's environment has no database that it may open; parsing needs none.
    env = {k: v for k, v in os.environ.items() if not k.startswith(_DATABASE)} | {_DATABASE[0]: "sqlite://"} | _OURS_ALONE
    line = [sys.executable, "-m", "plumbline.airflow.health", str(bundle)]
    try:
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the DAG files in {bundle} were not parsed within {_LIMIT_S} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"the DAG files in {bundle} could not be parsed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    return DagFiles.of(json.loads(done.stdout.splitlines()[-1]))


def main(bundle: str) -> None:
    """Print a row of `DagFiles` as one line of JSON."""
    folder = Path(bundle)
    bag = parse_bundle(folder, "repository")
    now = datetime.now(timezone.utc)
    unreadable = {_relative(file, folder): str(error) for file, error in bag.import_errors.items()}
    row = {
        "dags": [asdict(_declared(dag, folder, now)) for _, dag in sorted(bag.dags.items())],
        "unreadable": unreadable,
        "files": sorted({*unreadable, *(_relative(each.file, folder) for each in bag.dagbag_stats)}),
    }
    sys.stdout.write(json.dumps(row, default=datetime.isoformat) + "\n")


def _relative(file: object, folder: Path) -> str:
    path = Path(str(file))
    return str(path.relative_to(folder)) if path.is_absolute() and path.is_relative_to(folder) else str(file)


def _declared(dag: Any, folder: Path, now: datetime) -> DeclaredDag:
    started = (str(_given(task, "trigger_dag_id") or "") for task in dag.tasks)
    return DeclaredDag(
        dag_id=dag.dag_id,
        file=_relative(dag.fileloc, folder),
        tasks=tuple(sorted(task.task_id for task in dag.tasks if _is_ours(task))),
        scheduled=dag.schedule is not None,
        by_itself=dag.is_paused_upon_creation is False,
        repeats=HOUSEKEEPING in dag.tags,
        starts=tuple(sorted({name for name in started if name})),
        slots=_last_slots(dag, now),
    )


def _given(task: Any, name: str) -> Any:
    """An argument of the task's operator, also where it is mapped."""
    return getattr(task, "partial_kwargs", {}).get(name) or getattr(task, name, None)


def _is_ours(task: Any) -> bool:
    """Whether a failure of the task is one of this installation. One that does nothing only follows the others."""
    work = _given(task, "python_callable") or getattr(task, "operator_class", task)
    return task.task_type != "EmptyOperator" and not getattr(work, "found_elsewhere", False)


_SLOTS, _SPANS = 3, (timedelta(days=3), timedelta(days=70))
"""Slots of a DAG to look at, and how far back they are looked for: of an hourly and of a monthly clock."""


def _last_slots(dag: Any, now: datetime) -> tuple[datetime, ...]:
    """The last slots of the DAG's clock, newest first, by Airflow's own timetable."""
    from airflow.timetables.base import DagRunInfo

    read = as_scheduled(dag)
    for span in _SPANS:
        infos: list[DagRunInfo] = list(read.iter_dagrun_infos_between(now - span, now))
        slots = [info.logical_date for info in infos if info.logical_date is not None and info.run_after <= now]
        if slots:
            return tuple(reversed(slots[-_SLOTS:]))
    return ()


_COMPONENTS = ("triggerer", "dag_processor")
"""Without the components that run this task."""
_ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")
_TIMEOUT_S = 30.0


class TaskView:
    """An `airflow_view.AirflowView`; `ti`: the running task instance."""

    def __init__(self, ti: Any) -> None:
        self._ti = ti

    def dag_files(self) -> DagFiles:
        """The files of this task's bundle."""
        return read_dag_files(Path(self._ti.bundle_instance.path))

    def dag(self, dag_id: str) -> DeployedDag | None:
        """None if Airflow does not have the DAG."""
        try:
            row = dag_state(self._ti, dag_id)
        except AirflowRuntimeError as error:
            if (error.error.detail or {}).get("status_code") == httpx.codes.NOT_FOUND:
                return None
            raise
        return DeployedDag(None) if row is None else DeployedDag(bool(row.is_paused), row.next_dagrun)

    @property
    def reads_dags(self) -> bool:
        return TASKS_READ_DAGS

    def is_paused(self, dag_id: str) -> bool | None:
        """None if this Airflow does not say it. AirflowRuntimeError if it does not have the DAG."""
        row = dag_state(self._ti, dag_id)
        return None if row is None else bool(row.is_paused)

    def active(self, dag_id: str) -> bool:
        return bool(self._ti.get_dr_count(dag_id=dag_id, states=["queued", "running"]))

    def task_states(self, dag_id: str, task_ids: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        """The states of the tasks in the runs in which one of them failed."""
        wanted = list(task_ids)
        if not self._ti.get_ti_count(dag_id=dag_id, task_ids=wanted, states=["failed"]):
            return {}
        runs: dict[str, dict[str, str | None]] = self._ti.get_task_states(dag_id=dag_id, task_ids=wanted)
        return {run_id: states for run_id, states in runs.items() if "failed" in states.values()}

    def newest_states(self, dag: DeclaredDag) -> tuple[str, Mapping[str, str | None]] | None:
        """The newest ended run of the last scheduled ones."""
        for at in dag.slots:
            runs: dict[str, dict[str, str | None]] = self._ti.get_task_states(
                dag_id=dag.dag_id, task_ids=list(dag.tasks), logical_dates=[at]
            )
            for run_id, states in runs.items():
                if states and all(state in _ENDED for state in states.values()):
                    return run_id, states
        return None

    def started(self, dag_id: str, slot: datetime) -> bool:
        return bool(self._ti.get_dr_count(dag_id=dag_id, logical_dates=[slot]))

    def heartbeats(self) -> Mapping[str, datetime | None]:
        """Heartbeats on Airflow's health page; OSError if it does not answer."""
        address = conf.get("core", "execution_api_server_url", fallback=None) or conf.get("api", "base_url")
        url = f"{str(address).rstrip('/').removesuffix('/execution')}/api/v2/monitor/health"
        try:
            answer = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status().json()
        except (httpx.HTTPError, ValueError) as error:
            raise OSError(f"{url} does not answer: {error}") from error
        beats = {name: (answer.get(name) or {}).get(f"latest_{name}_heartbeat") for name in _COMPONENTS}
        return {name: datetime.fromisoformat(beat.replace("Z", "+00:00")) if beat else None for name, beat in beats.items()}


if __name__ == "__main__":
    main(sys.argv[1])
