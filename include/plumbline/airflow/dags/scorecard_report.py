"""Write a campaign's scorecards, decisions and report; send a monthly digest of open findings, ranked by cost.

When     the second of every month, for that month's campaign; or by hand for any campaign in the archive (`campaign` in the form, empty:
         the newest one). `plumbline run` starts it for its campaign.
Triage   `report` fails if the archive has no results of the requested campaign, and is skipped in a month without one: check the benchmark
         runs. It only reads; clear it at any time.
         `decide` makes every team's decisions and opens a finding where a first choice changed (docs/decide.md); with the same archive
         and prices it changes nothing: clear it at any time.
         `digest` fails if Slack refuses it for half a day. Clear it at any time: it is posted once a month and updated in place. It is
         skipped in a run by hand.
"""

from typing import Any

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.params import campaign_field
from plumbline.airflow.schedules import monthly_report
from plumbline.airflow.tasks.review import decide, digest, report
from plumbline.declarations.dag_ids import REPORT_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(
        **named(REPORT_DAG),
        schedule=monthly_report(),
        params={"campaign": campaign_field("Empty: the newest campaign of the archive.")},
        **defaults(__doc__, "report"),
    )
    def scorecard_report() -> None:
        report()
        decide()
        digest()

    return [scorecard_report()]
