"""Benchmark one provider: training and inference.

What     plan the trials of a lane; run and collect each; collect what is left; validate the results as one table; record every trial in the
         archive; publish `plumbline_results`, which starts the drift review. Trials of several nodes have their own lane.
When     the provider's monthly slots (first of the month, UTC); when `provider_watch` detects a change, with the change as the reason; or
         by hand: choose workloads, give a reason.
Triage   A red `run` is data about the provider: its exception names the failure class, the trial is recorded, and the DAG run can still
         succeed. Retries follow the class; each try is an attempt in the archive.
         A red `collect` means that the store has no readable result of a trial: its log names each trial and file.
         A red `validate` means that the checks could not run; a result that fails them is recorded as rejected, with reasons.
         A red `record` means that the archive refused a trial, which its log names: clear the task when the archive is back; records are
         written once.
         `conclude` is the DAG run's verdict: it fails if one of our own steps failed.
"""

from typing import Any

from airflow.sdk import TaskGroup, dag, task_group

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.params import on_demand_form
from plumbline.airflow.schedules import schedule_of
from plumbline.airflow.tasks.benchmark import collect, conclude, plan, publish, record, trial, validate
from plumbline.declarations import Declarations, Provider, load_in_force
from plumbline.workflows.plan import TrialGroup, trial_groups


def build() -> list[Any]:
    """One DAG for each enabled provider."""
    declared = load_in_force(keep=True)
    return [_benchmark(declared, provider) for provider in declared.enabled_providers()]


def _benchmark(declared: Declarations, provider: Provider) -> Any:
    @dag(
        **named(provider.dag_id),
        description=provider.description or f"{provider.cloud} {provider.region} {provider.instance_type}",
        schedule=schedule_of(declared, provider),
        params=on_demand_form(declared, provider),
        **defaults(__doc__, "benchmark", provider.cloud),
    )
    def benchmark() -> None:
        end = conclude()
        recorded = []
        for lane in trial_groups(declared, provider):
            with TaskGroup(lane.name):
                specs = plan(provider.name, lane.name)

                @task_group(group_id="trial")
                def one(spec: Any, lane: TrialGroup = lane) -> None:
                    trial(provider, lane, spec)

                trials = one.expand(spec=specs)
                collected = collect(specs)
                checked = validate(provider.name, lane.name, specs)
                trials >> collected >> checked
                recorded.append(record(checked))
                [specs, collected, recorded[-1]] >> end
        publish(provider.name, recorded) >> end

    return benchmark()
