"""Check the providers between campaigns: report changes at once, and measure again if they can move results.

What     for each monitored provider: read its prices, check its hardware and software, probe arithmetic and memory for at most two minutes
         (`watch.probe`), send alerts. A change that can move results sends `provider_changed`, which starts the provider's benchmark with
         the change as its reason. A price change starts no benchmark.
         A change is held back while a benchmark of the provider is active or paused, and for `watch.debounce` after a rerun began;
         `upkeep` sends it later. The next event contains all pending changes.
When     daily, on a team server from the start; by hand at any time.
Triage   `prices` logs the sources that failed; the others count. It is red if the archive cannot be written.
         A red `look` means that the provider cannot be checked: its message names the broken part, `plumbline cluster doctor PROVIDER`
         shows more. The other providers and pending changes continue.
         `probe` logs why it was skipped: not declared, not due, or something else runs there. It is red if the probe failed.
         A skipped `rerun` logs what it waits for, or that nothing changed.
         `conclude` is the DAG run's verdict: it fails if a provider cannot be checked.
"""

from typing import Any

from airflow.sdk import dag, task_group

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.schedules import daily
from plumbline.airflow.tasks.benchmark import conclude
from plumbline.airflow.tasks.review import alert
from plumbline.airflow.tasks.upkeep import look, prices, probe, providers, rerun
from plumbline.declarations.dag_ids import WATCH_DAG


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(**named(WATCH_DAG), schedule=daily(), **defaults(__doc__, "watch", housekeeping=True))
    def provider_watch() -> None:
        @task_group
        def watch(provider: str) -> None:
            prices(provider=provider)
            looked, probed = look(provider=provider), probe(provider=provider)
            looked >> probed
            [looked, probed] >> rerun(provider=provider)

        watched = watch.expand(provider=providers())
        watched >> alert.override(trigger_rule="all_done")()
        watched >> conclude()

    return [provider_watch()]
