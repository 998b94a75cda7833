"""Parse the DAG bundle as Airflow's DAG processor does and print what it found as JSON. Run as a process of its own: parsing is
judged in a fresh interpreter, whatever other tests have imported."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from airflow.dag_processing.dagbag import BundleDagBag  # noqa: E402
from airflow.serialization.serialized_objects import DagSerialization  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def timetables(dag: Any) -> list[Any]:
    """The timetables that a DAG's own is made of, those beside its assets too."""
    clock = getattr(dag.timetable, "timetable", dag.timetable)
    return list(getattr(clock, "timetables", []))


def main() -> None:
    """Print {errors, files, modules, dags: {id: {…, serialized}}}."""
    bag = BundleDagBag(dag_folder=str(ROOT), bundle_path=ROOT, bundle_name="repository")
    found = {
        dag_id: {
            "owners": sorted({t.owner for t in dag.tasks}),
            "doc": dag.doc_md,
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "starts_unpaused": dag.is_paused_upon_creation is False,
            "start_date": None if dag.start_date is None else dag.start_date.isoformat(),
            "crons": [str(getattr(t, "_expression", getattr(t, "expression", t))) for t in timetables(dag)],
            "assets": [asset.name for asset in getattr(getattr(dag.timetable, "asset_condition", None), "objects", ())],
            "timetable": type(dag.timetable).__name__,
            "tasks": {
                t.task_id: {
                    "pool": t.pool,
                    "timeout_s": None if t.execution_timeout is None else t.execution_timeout.total_seconds(),
                    "retries": t.retries,
                    "retry_delay_s": t.retry_delay.total_seconds(),
                    "max_retry_delay_s": None if t.max_retry_delay is None else t.max_retry_delay.total_seconds(),
                    "retry_policy": getattr(t, "retry_policy", None) is not None,
                    "rule": str(t.trigger_rule.value),
                    "upstream": sorted(t.upstream_task_ids),
                    "downstream": sorted(t.downstream_task_ids),
                    "operator": t.task_type,
                }
                for t in dag.tasks
            },
            "params": {name: dag.params.get_param(name).serialize() for name in dag.params},
            "serialized": json.dumps(DagSerialization.to_dict(dag), sort_keys=True),
        }
        for dag_id, dag in sorted(bag.dags.items())
    }
    heavy = ("great_expectations", "kubernetes", "matplotlib", "numpy", "pandas", "plotly", "scipy", "slack_sdk", "torch", "tritonclient")
    json.dump(
        {
            "errors": dict(bag.import_errors),
            "files": sorted(s.file for s in bag.dagbag_stats),
            "heavy": [name for name in heavy if name in sys.modules],
            "dags": found,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
