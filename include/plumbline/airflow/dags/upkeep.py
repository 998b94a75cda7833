"""Keep the providers' clusters clean, and the archive sound, small and exported.

What     upkeep: delete our pods, Jobs and Services that outlived every deadline of their launch, on each cluster; only labelled and expired
         ones. Report series that stopped reporting, and failures of this installation: failed tasks, paused DAGs, components that are down
         or unreadable files (docs/operate.md, "Findings about the installation"). Send due alerts: reminders, alerts from quiet hours,
         retries to Slack. Start the benchmarks of pending changes (provider_watch), and the review of each campaign that has none. Ask the
         triggerer for its connections.
         upkeep_daily: check the archive and a share of the raw evidence; delete expired raw evidence that nothing cites, only from a sound
         archive; export finished campaigns; delete expired logs, pages, reports, quarantined copies and repeated snapshots
         (include/config/upkeep.yaml); report failures of this installation once more, those of upkeep itself among them.
When     hourly and daily, on a team server from the start; elsewhere paused until a person unpauses them. `sweep` is skipped without a
         cluster, other tasks without their declaration.
Triage   A red `sweep` means that a cluster does not answer or refuses: `plumbline cluster doctor PROVIDER` shows the broken part; the other
         clusters are swept. Pods end at their deadline, so a missed hour only delays the cleanup. A red `verify` names the problems:
         docs/operate.md, "Repair the archive". A red `expire` or `export` means that a store did not answer or refused: the next run
         continues.
"""

from typing import Any

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.schedules import hourly, nightly
from plumbline.airflow.tasks.upkeep import (
    clusters,
    connections,
    expire,
    export,
    held,
    own_failures,
    rerun,
    review,
    silence,
    sweep,
    tell,
    tidy,
    unreviewed,
    verify,
)
from plumbline.declarations.dag_ids import UPKEEP_DAG, UPKEEP_DAILY_DAG


def build() -> list[Any]:
    """The hourly DAG and the daily one."""

    @dag(**named(UPKEEP_DAG), schedule=hourly(), **defaults(__doc__, "upkeep", housekeeping=True))
    def upkeep() -> None:
        sweep.expand(provider=clusters())
        rerun.expand(provider=held())
        review(unreviewed())
        connections()
        [silence(), own_failures()] >> tell()

    @dag(**named(UPKEEP_DAILY_DAG), schedule=nightly(), **defaults(__doc__, "upkeep", housekeeping=True))
    def upkeep_daily() -> None:
        verify() >> expire()
        export()
        tidy()
        own_failures() >> tell()

    return [upkeep(), upkeep_daily()]
