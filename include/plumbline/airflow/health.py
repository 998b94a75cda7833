"""State of the running Airflow, read from a task; `python -m plumbline.airflow.health FOLDER` parses the DAG files of a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError

from plumbline.airflow.schedules import recent

_LIMIT_S = 300
_DATABASE = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")


def unreadable_files(bundle: Path) -> dict[str, str]:
    """File, relative to the bundle, → its error. RuntimeError if parsing itself fails."""
    # A task's environment has no database that it may open; parsing needs none.
    env = {k: v for k, v in os.environ.items() if not k.startswith(_DATABASE)} | {_DATABASE[0]: "sqlite://"}
    line = [sys.executable, "-m", "plumbline.airflow.health", str(bundle)]
    try:
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the DAG files in {bundle} were not parsed within {_LIMIT_S} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"the DAG files in {bundle} could not be parsed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    errors: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return errors


def main(bundle: str) -> None:
    """Print {file: error} as one line of JSON."""
    from airflow.dag_processing.dagbag import BundleDagBag

    bag = BundleDagBag(dag_folder=bundle, bundle_path=Path(bundle), bundle_name="repository")
    sys.stdout.write(json.dumps({str(file): str(error) for file, error in bag.import_errors.items()}) + "\n")


_COMPONENTS = ("triggerer", "dag_processor")
"""Without the components that run this task."""
_ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")
_TIMEOUT_S = 30.0


class TaskView:
    """A `check_installation.AirflowView`; `ti`: the running task instance."""

    def __init__(self, ti: Any, now: datetime) -> None:
        self._ti, self._now = ti, now

    def paused(self, dag_id: str) -> bool | None:
        """None if the DAG does not exist."""
        try:
            return bool(self._ti.get_dag(dag_id).is_paused)
        except AirflowRuntimeError as error:
            if (error.error.detail or {}).get("status_code") == httpx.codes.NOT_FOUND:
                return None
            raise

    def task_states(self, dag_id: str, task_ids: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        """The states of the tasks in the runs in which one of them failed."""
        wanted = list(task_ids)
        if not self._ti.get_ti_count(dag_id=dag_id, task_ids=wanted, states=["failed"]):
            return {}
        runs: dict[str, dict[str, str | None]] = self._ti.get_task_states(dag_id=dag_id, task_ids=wanted)
        return {run_id: states for run_id, states in runs.items() if "failed" in states.values()}

    def newest_states(self, dag_id: str, task_ids: Sequence[str]) -> tuple[str, Mapping[str, str | None]] | None:
        """The newest ended run of the last scheduled ones."""
        for at in recent(dag_id, self._now):
            runs: dict[str, dict[str, str | None]] = self._ti.get_task_states(dag_id=dag_id, task_ids=list(task_ids), logical_dates=[at])
            for run_id, states in runs.items():
                if states and all(state in _ENDED for state in states.values()):
                    return run_id, states
        return None

    def started(self, dag_id: str, slot: datetime) -> bool:
        return bool(self._ti.get_dr_count(dag_id=dag_id, logical_dates=[slot]))

    def unreadable_files(self) -> Mapping[str, str]:
        """Files of this task's bundle that could not be read."""
        return unreadable_files(Path(self._ti.bundle_instance.path))

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
