"""Hold new results against their baselines and tell people what drifted.

What     for each campaign and provider that has new results: compare every series with its accepted baseline (environment first, then
         statistics), keep the findings with what they are attributed to, alert, ask what a change means for the baseline.
When     a benchmark publishes `plumbline_results`; or by hand for any campaign in the archive.
Triage   `compare` fails if the archive cannot be read; a review that is repeated changes nothing: clear it at will.
         `alert` does not fail because Slack does: what could not be told is told by the next review. docs/read-a-finding.md says what
         a finding means.
         Accepting a new baseline is a person's decision: `ask` starts `baseline_decision` for each confirmed change and waits for none.
"""

from airflow.sdk import Param, dag

from plumbline.airflow.defaults import defaults
from plumbline.airflow.params import campaign_field
from plumbline.airflow.schedules import RESULTS
from plumbline.airflow.tasks.review import alert, ask, changed, compare, questions


@dag(
    schedule=[RESULTS],
    params={
        "campaign": campaign_field("By hand: the campaign to review again."),
        "provider": Param(None, type=["null", "string"], title="Provider", description="By hand; empty: all of the campaign's."),
    },
    **defaults(__doc__, "drift", asked=True),
)
def drift_review():
    reviewed = compare.expand(what=changed())
    reviewed >> alert()
    ask(questions(reviewed))


drift_review()
