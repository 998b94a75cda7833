"""Run a short trial on the providers that declare one, to look at them from inside between the monthly campaigns.

What     for each provider with `watch.probe` whose workload was not measured for `every`: start its benchmark with that workload alone. Every
         trial measures the hardware and notes driver and libraries first; the drift review holds both against the series' baseline.
When     daily, but a provider at most once every `watch.probe.every` (a week); its budget holds for it.
Triage   A skipped `due` found nothing to start. A red `start` means that this provider's benchmark DAG is paused: unpause it, clear the task.
         What became of a trial stands in the benchmark's own run.
"""

from airflow.sdk import dag

from plumbline.orchestration.defaults import defaults
from plumbline.orchestration.probe_tasks import due
from plumbline.orchestration.rerun_tasks import start
from plumbline.orchestration.schedules import daily


@dag(schedule=daily(), **defaults(__doc__, "watch"))
def provider_probe():
    start(due())


provider_probe()
