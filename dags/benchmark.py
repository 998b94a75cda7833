"""Benchmark one provider, training and inference apart.

What     plan the trials, then for each: run it, collect its result. Validate the results of a lane as one table, record every trial
         in the archive, and publish `plumbline_results`, which starts the drift review. Trials of several nodes have a lane of their own.
When     the provider's monthly slots (the first of the month, UTC); or as soon as `provider_watch` finds the provider changed, with the
         change as its reason; or on demand: choose workloads, say why.
Triage   A red `run` is data about the provider: its exception names the failure class, the trial is recorded all the same, and the
         DAG run can still succeed. Retries follow the class; each try is an attempt of its own in the archive.
         A red `collect` means that the store has nothing of the trial, or nothing that can be read: its message names the file.
         A red `validate` means that the checks could not run; a result that failed them is recorded as rejected, with its reasons.
         A red `record` means that the archive refused: clear the task once the archive is back, a record is never written twice.
         `conclude` is the DAG run's verdict: it fails if one of our own steps did.
"""

from airflow.sdk import TaskGroup, dag, task_group

from plumbline.airflow.defaults import defaults
from plumbline.airflow.params import on_demand_form
from plumbline.airflow.schedules import schedule_of
from plumbline.airflow.tasks.benchmark import conclude, plan, publish, record, trial, validate
from plumbline.declarations import Declarations, Provider, load
from plumbline.workflows.plan import trial_groups


def benchmark(declared: Declarations, provider: Provider) -> None:
    @dag(
        dag_id=provider.dag_id,
        description=provider.description or f"{provider.cloud} {provider.region} {provider.instance_type}",
        schedule=schedule_of(declared, provider),
        params=on_demand_form(declared, provider),
        **defaults(__doc__, "benchmark", provider.cloud),
    )
    def build() -> None:
        end = conclude()
        recorded = []
        for lane in trial_groups(declared, provider):
            with TaskGroup(lane.name):
                specs = plan(provider.name, lane.name)

                @task_group(group_id="trial")
                def one(spec, lane=lane):
                    trial(provider, lane, spec)

                trials = one.expand(spec=specs)
                checked = validate(provider.name, lane.name, specs)
                trials >> checked
                recorded.append(record.expand(checked=checked))
                [specs, trials, recorded[-1]] >> end
        publish(provider.name, recorded) >> end

    build()


declared = load()
for provider in declared.enabled_providers():
    benchmark(declared, provider)
