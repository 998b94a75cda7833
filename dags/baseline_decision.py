"""Ask a person what a confirmed change means for the baseline.

What     one run per finding: show it, wait for an answer in Airflow's "required actions" (accept as the new baseline, keep the old one,
         rerun on a fresh node), carry it out. Answer, who gave it and why go to the audit log.
When     the drift review found a change of performance or environment that nobody has dealt with; by hand for any open finding. It
         waits as long as `drift.answer_within` says, in no pool and no worker's slot, beside reviews and campaigns; without an answer the
         old baseline is kept.
Triage   A red `answer` names what cannot be carried out (the finding was settled meanwhile, the provider is no longer declared): decide
         by `plumbline findings` instead. A red `rerun` means that the provider's benchmark DAG is paused or not there: unpause it, clear
         the task.
"""

from airflow.sdk import Param, dag

from plumbline.airflow.defaults import defaults
from plumbline.airflow.tasks.review import answer, question, rerun, tell, wanted
from plumbline.workflows.plan import DECISION_DAG


@dag(
    dag_id=DECISION_DAG,
    schedule=None,
    params={
        "finding": Param(None, type="string", pattern="^[0-9a-f]{12}$", title="Finding", description="`plumbline findings` lists them.")
    },
    # Each run waits for its own person.
    **{**defaults(__doc__, "drift", asked=True), "max_active_runs": 64},
)
def baseline_decision():
    asked = question()
    tell() >> asked
    rerun(wanted(answer(asked.output)))


baseline_decision()
