"""Measure every node of a provider, and write a signed sheet that says which ones to send back.

What     start the provider's benchmark with one short training on each node, wait for it without holding a worker, judge the nodes, write
         acceptance/<campaign>.zip in the installation's home, or with results in a bucket `_acceptance/` there. `plumbline accept` does the same
         from a terminal.
When     by hand, or through Airflow's REST API, when a provider has delivered nodes: choose the provider, all nodes or a number.
Triage   A red `choose` names what does not fit; nothing was started. A red `start` means that the provider's benchmark DAG is paused, or that
         its run failed: repair that run, then clear the task.
         A red `sheet` means that the archive has no trial on a node, or that a result store does not answer: clear it at any time.
"""

from typing import Any

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.params import acceptance_form
from plumbline.airflow.tasks.acceptance import choose, sheet, start
from plumbline.declarations import load_in_force
from plumbline.declarations.dag_ids import ACCEPTANCE_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(**named(ACCEPTANCE_DAG), schedule=None, params=acceptance_form(load_in_force()), **defaults(__doc__, "benchmark", asked=True))
    def acceptance() -> None:
        chosen = choose()
        start(chosen) >> sheet(chosen)

    return [acceptance()]
