"""The checks of the installation in a real Airflow with the LocalExecutor: a paused watch, a failed review, a DAG file that is gone and a connection
that the triggerer lacks are found by one run of `upkeep` and one of `upkeep_daily`, and the review is made up for. One server serves all of it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

import pytest
import yaml
from tests.data.result_documents import document, trial
from tests.fakes.trials import cluster_provider

from plumbline.archive import open_archive
from plumbline.declarations import installation_paths, load
from plumbline.declarations.trials import Origin
from plumbline.embedded.client import AirflowClient, DagRun
from plumbline.embedded.server import AirflowServer

# Three minutes on a quiet machine: tests/unit/workflows goes the same way with an Airflow that a test describes.
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
NAME, CAMPAIGN = "local-1core", "2026-10"
T = TypeVar("T")


@dataclass
class Installation:
    client: AirflowClient
    bundle: Path
    failed_review: DagRun

    def after(self, dag_id: str, *task_ids: str) -> dict[str, str]:
        """Open findings, subject → title, after a run of the DAG in which these tasks succeeded; its other tasks need not have ended."""
        run = self.client.trigger(dag_id, {})

        def ended() -> bool:
            states = {t.task_id: t.state for t in self.client.tasks(run.dag_id, run.run_id)}
            assert "failed" not in {states.get(task_id) for task_id in task_ids}, states
            return {states.get(task_id) for task_id in task_ids} == {"success"}

        until(ended, f"{', '.join(task_ids)} of {dag_id}")
        return findings()


def until(ready: Callable[[], T], what: str, limit_s: float = 400) -> T:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := ready():
            return found
        time.sleep(1)
    raise AssertionError(f"no {what} within {limit_s:g} s")


def findings() -> dict[str, str]:
    with open_archive() as archive:
        return {str(f.detail["subject"]): f.headline for f in archive.findings_of("plumbline", "self", unsettled=True)}


def declare(folder: Path) -> Path:
    """The shipped declarations, and a cluster whose connection was never made."""
    config = Path(shutil.copytree(ROOT / "include" / "config", folder / "config"))
    cluster = cluster_provider(connection="k8s_never_made")
    (config / "providers" / "cluster-a.yaml").write_text(yaml.safe_dump(json.loads(cluster.model_dump_json(exclude_none=True))))
    return config


def record() -> None:
    """A result of a benchmark, two hours ago."""
    asked = trial(campaign=CAMPAIGN, where=load().providers[NAME], planned_at=datetime.now(timezone.utc) - timedelta(hours=3))
    origin = Origin(dag_id=f"benchmark_{NAME.replace('-', '_')}", run_id="r", bundle_version=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.archive.engine.utc_now", lambda: datetime.now(timezone.utc) - timedelta(hours=2))
        with open_archive() as archive:
            archive.record(document(asked.model_copy(update={"origin": origin})), uri="file:///nowhere")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("watchman")
    bundle = folder / "bundle"
    shutil.copytree(ROOT / "dags", bundle / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "dags-folder", "classpath": local, "kwargs": {"path": str(bundle)}}]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
            patch.delenv(name)
        patch.setenv("PLUMBLINE_HOME", str(folder / "home"))
        patch.setenv("PLUMBLINE_CONFIG", str(declare(folder)))
        patch.setenv("PLUMBLINE_TEAM_SERVER", "true")
        patch.setenv("AIRFLOW__CORE__PARALLELISM", "2")
        patch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
        patch.delenv("AIRFLOW_CONN_K8S_NEVER_MADE", raising=False)
        record()
        with AirflowServer(installation_paths().airflow_home) as server, server.client() as client:
            needed = {"drift_review", "upkeep", "upkeep_daily", "availability_watch", "operations_log"}
            until(lambda: needed <= client.dags().keys(), "DAG")
            run = client.trigger("drift_review", {"campaign": CAMPAIGN, "provider": NAME})
            client.end_run(run.dag_id, run.run_id, "as where its worker is lost")
            yield Installation(client, bundle, run)


@pytest.mark.fault(
    "a paused watch, a failed review, a DAG file that is gone (a real Airflow)", ends="a finding each, within a day", keeps="the review"
)
def test_a_paused_watch_a_failed_review_and_a_missing_dag_are_found(there: Installation) -> None:
    there.client.set_paused("availability_watch", True)
    first = there.after("upkeep", "own_failures", "review", "connections")
    assert first["dag_paused availability_watch"]
    assert f"review_missing {CAMPAIGN} {NAME}" in first
    assert "k8s_never_made" in first["connection_missing k8s_never_made"], "the triggerer itself was asked"
    assert not [subject for subject in first if subject.startswith(("dag_missing", "dag_late"))], "what was deployed just now is not late"

    (there.bundle / "dags" / "operations_log.py").unlink()
    reviews = until(
        lambda: [r for r in there.client.runs("drift_review", datetime(2026, 1, 1, tzinfo=timezone.utc)) if r.ended][1:], "review"
    )
    assert {r.state for r in reviews} == {"success"}
    second = there.after("upkeep_daily", "own_failures")
    assert "operations_log" in second["dag_missing dags/operations_log.py"]
    assert f"review_missing {CAMPAIGN} {NAME}" not in second, "upkeep made up for it"
    assert "dag_paused availability_watch" in second
