"""A world with a fleet of providers, a campaign through it, and the account of every trial afterwards."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fleet_cluster import CONNECTION, PROVIDER, SIMULATED, Clusters
from fleet_services import ROOT, Executor, FleetServer, variables, wait_for
from scale_world import make_world

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, Trial, load
from plumbline.embedded.client import AirflowClient, DagRun
from plumbline.launch.plan import RunRequest, planned_trials
from plumbline.results import ResultStore
from plumbline.workflows.plan import plan_runs

_PARSED_S = 900.0


@dataclass(frozen=True)
class Size:
    """`parallel`: trials of a provider at a time; `lasts_s`: seconds that a pod runs. `code`: the checkout that the services run."""

    providers: int
    workloads: int
    repeats: int
    simulated: bool = False
    lasts_s: float = 30.0
    parallel: int = 4
    code: Path = ROOT


@dataclass
class World:
    """A running server with its fleet."""

    folder: Path
    server: FleetServer
    clusters: Clusters
    declared: Declarations
    size: Size

    @property
    def store(self) -> ResultStore:
        return ResultStore((self.folder / "results").as_uri())


@contextmanager
def world(executor: Executor, size: Size, extra: dict[str, str] | None = None) -> Iterator[World]:
    """Services and fleet in a temporary folder; at the end everything is stopped."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as path, Clusters(size.lasts_s) as clusters:
        folder = Path(path)
        text = (SIMULATED if size.simulated else PROVIDER).format(parallel=size.parallel, results=(folder / "away").as_uri())
        config = make_world(folder, size.providers, size.workloads, size.repeats, provider=text)
        results = {"PLUMBLINE_RESULTS_URL": (folder / "results").as_uri()}
        os.environ["PLUMBLINE_CONFIG"] = str(config)
        with FleetServer(
            folder, executor, {**variables(config, {CONNECTION: clusters.connection}), **results, **(extra or {})}, size.code
        ) as server:
            made = World(folder, server, clusters, load(), size)
            with server.client() as client:
                wanted = {provider.dag_id for provider in made.declared.enabled_providers()}
                wait_for("every DAG is there", lambda: wanted <= {*client.dags()}, _PARSED_S)
                if errors := client.import_errors():
                    raise RuntimeError(f"DAG files with errors: {errors}")
                for dag_id in wanted:
                    client.set_paused(dag_id, False)
            yield made


@dataclass
class Campaign:
    """A campaign of all providers, started. `planned`: its trials by id."""

    campaign_id: str
    runs: list[DagRun]
    planned: dict[str, Trial]

    def ended(self, client: AirflowClient) -> bool:
        """Look at the runs that had not ended; whether all have."""
        self.runs = [run if run.ended else client.run(run.dag_id, run.run_id) for run in self.runs]
        return all(run.ended for run in self.runs)


def start(here: World, client: AirflowClient, campaign_id: str) -> Campaign:
    """One run of each provider's DAG, with every repeat of every workload."""
    request = RunRequest(campaign_id, "a measurement of the server")
    names = [provider.name for provider in here.declared.enabled_providers()]
    planned = planned_trials(here.declared, request, names)
    runs = [client.trigger(each.dag_id, each.conf) for each in plan_runs(here.declared, request, names)]
    return Campaign(campaign_id, runs, {trial.trial_id: trial for trials in planned.values() for trial in trials})


@dataclass(frozen=True)
class Account:
    """What became of a campaign's trials. `unusable`: recorded, but no attempt counts. `problems`: what `archive verify` names."""

    planned: int
    lost: list[str]
    doubled: list[str]
    unusable: list[str]
    strange: list[str]
    failed_runs: list[str]
    pods: list[str]
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.unusable or self.strange or self.failed_runs or self.pods or self.problems)

    def __str__(self) -> str:
        counts = {name: len(value) for name, value in vars(self).items() if isinstance(value, list)}
        named = [f"{name}: {', '.join(value[:3])}" for name, value in vars(self).items() if isinstance(value, list) and value]
        return "; ".join([f"{self.planned} trials, " + ", ".join(f"{number} {name}" for name, number in counts.items()), *named])


def account(here: World, campaign: Campaign) -> Account:
    """Compare plan, archive and store: each trial once and usable, and the store's attempts are the archive's."""
    with open_archive(here.server.archive_url) as archive:
        rows = archive.trials(campaign.campaign_id)
        usable = Counter(row.trial_id for row in rows if row.usable)
        problems = [str(each) for each in archive.verify()]
    recorded = {(row.trial_id, row.attempt) for row in rows}
    store = here.store
    stored = {
        (trial_id, int(folder.rpartition("-")[2]))
        for trial_id in campaign.planned
        for folder in store.attempts(campaign.campaign_id, trial_id)
    }
    return Account(
        planned=len(campaign.planned),
        lost=sorted(campaign.planned.keys() - {row.trial_id for row in rows}),
        doubled=sorted(trial_id for trial_id, times in usable.items() if times > 1),
        unusable=sorted(f"{row.trial_id} {row.status} {row.quality_action}" for row in rows if row.trial_id not in usable),
        strange=sorted(f"{trial}#{attempt}" for trial, attempt in recorded ^ stored),
        failed_runs=[f"{run.dag_id} {run.state}" for run in campaign.runs if run.state != "success"],
        pods=here.clusters.leftovers(),
        problems=problems,
    )
