"""Act on a finding: acknowledge, accept as the new baseline, snooze, or rerun on a fresh node.

What     apply the action in the name of the person who asked, with the reason, and record both in the audit log; for a rerun start
         the provider's benchmark. The pages read the archive only, so their buttons start this DAG.
When     a button of Plumbline's pages, which signs the request for this one run; by hand for any open finding. The role that may start its
         runs may act on findings; a rerun, and what is about prices, only by a button, because the page checks the rights to start the
         benchmark and to see costs. A run that another DAG starts is refused.
Triage   A red `act` names what cannot be applied, such as a finding that is settled, or a request that expired after 12 hours: press the
         button again. A red `rerun` means that the provider's benchmark DAG is paused or missing: unpause it, clear the task.
"""

from typing import Any

from airflow.sdk import Param, dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.tasks.review import act, rerun, wanted
from plumbline.declarations.dag_ids import ACTION_DAG
from plumbline.workflows.plan import ACTIONS, REASON_LIMIT


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(
        **named(ACTION_DAG),
        schedule=None,
        params={
            "finding": Param(None, type="string", minLength=1, title="Finding", description="`plumbline findings` lists them."),
            "action": Param(None, type="string", enum=list(ACTIONS), title="Action"),
            "why": Param(None, type="string", minLength=1, maxLength=REASON_LIMIT, title="Why", description="Required, for the audit log."),
            "until": Param(
                None,
                type=["null", "string"],
                title="Snooze until",
                description="Only for a snooze: a day (2026-12-01) or a time from now (14d).",
            ),
        },
        **defaults(__doc__, "drift", asked=True),
    )
    def finding_action() -> None:
        rerun(wanted(act()))

    return [finding_action()]
