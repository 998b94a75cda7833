"""Check the uptime of endpoints and the capacity of clusters between campaigns, as often as declared.

What     for each provider with `watch.uptime` or `watch.capacity`: one request of one output token, one list of a cluster's
         nodes, or one pod that ends at once (`dry_run`: a question to the API alone). Each check goes to the archive. The third miss in a row opens a finding and sends alerts;
         the first answer resolves it. Misses by our own fault, such as an expired token, open none.
When     hourly, on a team server from the start; a run checks until the next one begins. `plumbline watch` checks once.
Triage   `checks` waits in the triggerer and holds no worker between checks. It is red if the archive does not answer: the next run continues.
         docs/availability.md explains outages, availability and whose fault a miss is.
"""

from typing import Any

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.schedules import hourly
from plumbline.airflow.tasks.upkeep import checks, watched
from plumbline.declarations.dag_ids import AVAILABILITY_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(**named(AVAILABILITY_DAG), schedule=hourly(), **defaults(__doc__, "watch", housekeeping=True))
    def availability_watch() -> None:
        checks(watched())

    return [availability_watch()]
