"""Measure several providers again, now, for a reason.

What     start the benchmarks of the chosen providers as one campaign; their own DAGs do the rest, with their pools, budgets, reviews and
         alerts. `plumbline trigger` does the same from a terminal and shows the cost before it starts anything.
When     by hand, or through Airflow's REST API: choose providers and workloads, give a reason.
Triage   A red `choose` names what does not exist or does not fit; nothing was started. A red `start` means that this provider's benchmark
         DAG is paused: unpause it, clear the task. If a benchmark is running, the new run is queued behind it.
"""

from typing import Any

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.params import rerun_form
from plumbline.airflow.tasks.benchmark import choose, start
from plumbline.declarations import load
from plumbline.declarations.dag_ids import RERUN_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(**named(RERUN_DAG), schedule=None, params=rerun_form(load()), **defaults(__doc__, "benchmark", asked=True))
    def rerun() -> None:
        start(choose())

    return [rerun()]
