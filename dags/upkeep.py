"""Keep the providers' clusters clean, and the archive sound, lean and in a second place.

What     upkeep: delete pods, Jobs and Services of ours that outlived every deadline of their launch, on each cluster; nothing that is not
         labelled as ours, nothing whose time has not passed. A launch deletes its own objects: what is found here lost its launcher.
         Miss what stopped reporting: a provider that is silent starts no review. Report what of this installation itself failed, is paused,
         away or cannot be parsed (docs/operate.md, "Findings about the installation"). Tell people what is due: reminders, what waited for the
         end of quiet hours, what Slack did not take before. Start the benchmarks that a change of their provider waits for (provider_watch).
         upkeep_daily: check the archive and a share of the raw evidence; let raw evidence go that was kept as long as declared and that
         nothing cites, but never from an archive that does not hold; export finished campaigns; delete logs, pages, reports, copies in
         quarantine and repeated snapshots past their time (include/config/upkeep.yaml).
When     hourly and daily, on a team server from the start; elsewhere both are paused until a person unpauses them. The sweep is skipped where no provider is a cluster, the rest where nothing is declared.
Triage   A red `sweep` means that a cluster does not answer or refuses: `plumbline cluster doctor PROVIDER` says which part of the way is
         broken; the other clusters are swept all the same. Pods end by themselves at their deadline, so an hour missed costs nothing but
         tidiness. A red `verify` names what is broken: docs/operate.md, "Repair the archive". A red `expire` or `export` means
         that a store did not answer or refused: the next run goes on where this one stopped.
"""

from airflow.sdk import dag

from plumbline.airflow.defaults import defaults
from plumbline.airflow.schedules import hourly, nightly
from plumbline.airflow.tasks.upkeep import clusters, expire, export, held, own_failures, rerun, silence, sweep, tell, tidy, verify


@dag(schedule=hourly(), **defaults(__doc__, "upkeep", housekeeping=True))
def upkeep():
    sweep.expand(provider=clusters())
    rerun.expand(provider=held())
    [silence(), own_failures()] >> tell()


@dag(schedule=nightly(), **defaults(__doc__, "upkeep", housekeeping=True))
def upkeep_daily():
    verify() >> expire()
    export()
    tidy()


upkeep()
upkeep_daily()
