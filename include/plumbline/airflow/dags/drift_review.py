"""Compare new results with their baselines and report drift.

What     for each campaign and provider with new results: compare every series with its accepted baseline (environment first, then
         statistics), store the findings with their attribution, send alerts, ask what a change means for the baseline.
When     a benchmark publishes `plumbline_results`; or by hand for any campaign in the archive.
Triage   `compare` fails if the archive cannot be read; repeating a review changes nothing: clear it at any time.
         `alert` does not fail if Slack does: the next review sends what is missing. docs/read-a-finding.md explains findings.
         A person accepts a new baseline: `ask` starts `baseline_decision` for each confirmed change and does not wait for it.
"""

from typing import Any

from airflow.sdk import Param, dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.params import campaign_field
from plumbline.airflow.schedules import RESULTS
from plumbline.airflow.tasks.review import alert, ask, changed, compare, questions
from plumbline.declarations.dag_ids import REVIEW_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(
        **named(REVIEW_DAG),
        schedule=[RESULTS],
        params={
            "campaign": campaign_field("By hand: the campaign to review again."),
            "provider": Param(None, type=["null", "string"], title="Provider", description="By hand; empty: all of the campaign's."),
        },
        **defaults(__doc__, "drift", asked=True),
    )
    def drift_review() -> None:
        reviewed = compare.expand(what=changed())
        reviewed >> alert()
        ask(questions(reviewed))

    return [drift_review()]
