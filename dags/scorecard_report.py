"""Write a campaign's scorecards, decisions and report; tell once a month what is open, ranked by money.

When     the second of every month, for that month's campaign; or on demand for any campaign in the archive (`campaign` in the form,
         the newest one if left empty). `plumbline run` starts it for the campaign that it has measured.
Triage   `report` fails if the archive has nothing of the campaign that was asked for, and is skipped in a month without one: look at
         the benchmark runs. It only reads; clear it at any time, the report is replaced whole.
         `decide` makes every team's decisions again and opens a finding where a first choice changed (docs/decide.md); the same archive
         and prices change nothing: clear it at will.
         `digest` fails if Slack refuses it, after trying for half a day; nothing waits for it. Clear it at any time: it is posted once a
         month, and brought up to date where it stands. It is skipped by hand.
"""

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults
from plumbline.airflow.params import campaign_field
from plumbline.airflow.schedules import monthly_report
from plumbline.airflow.tasks.review import decide, digest, report


@dag(
    schedule=monthly_report(),
    params={"campaign": campaign_field("Empty: the newest campaign of the archive.")},
    **defaults(__doc__, "report"),
)
def scorecard_report():
    report()
    decide()
    digest()


scorecard_report()
