"""Ask a person what a confirmed change means for the baseline.

What     one run per finding: show it, wait for an answer under "required actions" (accept as the new baseline, keep the old one, rerun on
         a fresh node), apply it. The audit log records answer, author and reason.
When     the drift review opens a finding of performance or environment; by hand for any open finding. The question waits for
         `drift.answer_within`, in no pool and no worker's slot; without an answer the baseline stays.
Triage   A red `answer` names what cannot be applied (the finding is settled, the provider is not declared): decide with `plumbline findings`
         instead. A red `rerun` means that the provider's benchmark DAG is paused or missing: unpause it, clear the task.
"""

from typing import Any

from airflow.sdk import Param, dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.tasks.review import answer, question, rerun, tell, wanted
from plumbline.declarations.dag_ids import DECISION_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(
        **named(DECISION_DAG),
        schedule=None,
        params={
            "finding": Param(None, type="string", pattern="^[0-9a-f]{12}$", title="Finding", description="`plumbline findings` lists them.")
        },
        # Each run waits for its own person.
        **{**defaults(__doc__, "drift", asked=True), "max_active_runs": 64},
    )
    def baseline_decision() -> None:
        asked = question()
        tell() >> asked
        rerun(wanted(answer(asked.output)))

    return [baseline_decision()]
