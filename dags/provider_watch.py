"""Look at the providers between campaigns: what changed is a finding at once, and what could change the numbers is measured.

What     for each watched provider: read its prices, look at its hardware and software, now and then (`watch.probe`) measure its
         arithmetic and memory for two minutes at most, tell people of what differs. If that could move what is measured, send `provider_changed`, which starts the provider's benchmark with the change as its reason. A changed price
         starts nothing: it moves money, not numbers.
         A change is held back while a benchmark of that provider is under way or is paused, and for `watch.debounce` after a rerun began;
         `upkeep` sends it later. Nothing is forgotten: the next event tells of all that waited.
When     daily, on a team server from the start; by hand at any time.
Triage   `prices` names in its log the sources that said nothing; what the others say counts. Red, it could not write to the archive.
         A red `look` means that the provider could not be looked at: its message says which part of the way is broken, and
         `plumbline cluster doctor PROVIDER` more. The other providers go on, and a change that waits still does.
         `probe` says in its log why it made none: none is declared or due, or it gave way to what runs there. Red, it failed.
         A skipped `rerun` says in its log what it waits for, or that nothing changed.
         `conclude` is the DAG run's verdict: it fails if a provider could not be looked at.
"""

from airflow.sdk import dag, task_group

from plumbline.airflow.defaults import defaults
from plumbline.airflow.schedules import daily
from plumbline.airflow.tasks.benchmark import conclude
from plumbline.airflow.tasks.review import alert
from plumbline.airflow.tasks.upkeep import look, prices, probe, providers, rerun


@dag(schedule=daily(), **defaults(__doc__, "watch", housekeeping=True))
def provider_watch():
    @task_group
    def watch(provider):
        prices(provider=provider)
        looked, probed = look(provider=provider), probe(provider=provider)
        looked >> probed
        [looked, probed] >> rerun(provider=provider)

    watched = watch.expand(provider=providers())
    watched >> alert.override(trigger_rule="all_done")()
    watched >> conclude()


provider_watch()
