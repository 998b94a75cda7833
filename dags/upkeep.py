"""Keep the providers' clusters clean.

What     delete pods and Services of ours that outlived every deadline of their launch, on each cluster; nothing that is not labelled
         as ours, nothing whose time has not passed. A launch deletes its own objects: what is found here lost its launcher.
         Miss what stopped reporting: a provider that is silent starts no review.
When     hourly. The sweep is skipped where no provider is a cluster.
Triage   A red `sweep` means that a cluster does not answer or refuses: `plumbline cluster doctor PROVIDER` says which part of the way is
         broken. Pods end by themselves at their deadline, so an hour missed costs nothing but tidiness.
"""

from airflow.sdk import dag

from plumbline.orchestration.defaults import defaults
from plumbline.orchestration.schedules import hourly
from plumbline.orchestration.upkeep_tasks import clusters, silence, sweep


@dag(schedule=hourly(), **defaults(__doc__, "upkeep"))
def upkeep():
    sweep.expand(provider=clusters())
    silence()


upkeep()
