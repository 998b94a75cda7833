"""Parse the DAG bundle as Airflow's DAG processor does, in a fork of a process that has imported Airflow and nothing else, whatever other
tests have imported. Each line of the input is the environment of one parse; each line of the output what it found, both as JSON."""

from __future__ import annotations

import json
import os
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


def parse() -> dict[str, Any]:
    """{errors, files, heavy, dags: {id: {…, serialized}}}"""
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
    return {
        "errors": dict(bag.import_errors),
        "files": sorted(s.file for s in bag.dagbag_stats),
        "heavy": [name for name in heavy if name in sys.modules],
        "dags": found,
    }


def main() -> None:
    """Importing Airflow takes longer than a parse."""
    for line in sys.stdin:
        read, write = os.pipe()
        if not (child := os.fork()):
            os.environ.update(json.loads(line))
            with os.fdopen(write, "w") as file:
                json.dump(parse(), file)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as file:
            answer = file.read()
        if os.waitpid(child, 0)[1]:
            sys.exit("the parse ended with an error")  # whoever reads the answers sees their end
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
