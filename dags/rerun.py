"""Measure several providers again, now, for a reason.

What     start the benchmarks of the chosen providers as one campaign. Their own DAGs do the rest: pools, budgets, review and alerts are as
         ever. `plumbline trigger` does the same from a terminal, and says what it would cost the budgets before it starts anything.
When     by hand, or by Airflow's REST API: choose providers and workloads, say why.
Triage   A red `choose` names what does not exist or does not fit; nothing was started. A red `start` means that this provider's benchmark
         DAG is paused: unpause it, clear the task. A benchmark that runs already is waited for: the new run is queued behind it.
"""

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults
from plumbline.airflow.params import rerun_form
from plumbline.airflow.tasks.benchmark import choose, start
from plumbline.declarations import load


@dag(schedule=None, params=rerun_form(load()), **defaults(__doc__, "benchmark", asked=True))
def rerun():
    start(choose())


rerun()
