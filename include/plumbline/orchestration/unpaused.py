"""DAGs that a campaign unpauses are paused again, even if the campaign is killed: who was unpaused stands in a file until then."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from plumbline.orchestration.airflow_client import AirflowClient, AirflowError

_KILLED = "the command that asked for it was killed"


def unpause(home: Path, client: AirflowClient, dag_ids: Iterable[str]) -> None:
    """Unpause these DAGs and remember those that were paused. AirflowError if one is gone, such as after its declaration was edited."""
    known = client.dags()
    wanted = list(dag_ids)
    if gone := [d for d in wanted if d not in known]:
        raise AirflowError(
            f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} no longer in Airflow: was a declaration edited meanwhile?"
        )
    file = _file(home)
    draft = file.with_suffix(".part")
    draft.write_text(json.dumps(sorted({*_remembered(home), *(d for d in wanted if known[d].is_paused)})))
    draft.replace(file)
    for dag_id in wanted:
        client.set_paused(dag_id, False)


def pause_again(home: Path, client: AirflowClient) -> None:
    """Pause what `unpause` remembered, and end the runs that a killed command left in it: they would go on without anybody waiting."""
    known = client.dags()
    for dag_id in _remembered(home):
        if dag_id in known:  # its provider may be gone from the declarations
            client.set_paused(dag_id, True)
            end_active_runs(client, dag_id)
    _file(home).unlink(missing_ok=True)


def end_active_runs(client: AirflowClient, dag_id: str) -> None:
    """End what an earlier command left queued or running."""
    for run in client.active_runs(dag_id):
        client.end_run(dag_id, run.run_id, _KILLED)


def end_runs_since(client: AirflowClient, dag_id: str, since: datetime, why: str) -> None:
    """End the runs of a DAG that were due at `since` or later and still go on; earlier ones stay."""
    for run in client.runs(dag_id, since):
        if not run.ended:
            client.end_run(dag_id, run.run_id, why)


def _file(home: Path) -> Path:
    return home / "unpaused.json"


def _remembered(home: Path) -> list[str]:
    file = _file(home)
    return list(json.loads(file.read_text())) if file.exists() else []
