"""Each component of a real Airflow is killed at each stage of a campaign: the campaign ends as if nothing had happened."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from plumbline.archive import open_archive
from plumbline.declarations import installation_paths, load
from plumbline.embedded.campaign import CampaignState, run_campaign
from plumbline.embedded.client import AirflowClient
from plumbline.embedded.server import AirflowServer
from plumbline.embedded.supervisor import COMPONENTS, STEADY_S
from plumbline.launch.plan import RunRequest, planned_trials

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]
PROVIDER, DAG = "simulated-2core", "benchmark_simulated_2core"
STAGES = ("plan", "run", "collect", "validate", "record", "drift_review", "scorecard_report")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """One Airflow for all kills: a simulated provider, whose trials take no time of the machine."""
    folder = tmp_path_factory.mktemp("killed")
    config = Path(shutil.copytree(ROOT / "include" / "config", folder / "config", ignore=shutil.ignore_patterns("economics.yaml")))
    for path in (config / "providers").glob("*.yaml"):
        if path.stem != PROVIDER:
            path.unlink()
    provider = config / "providers" / f"{PROVIDER}.yaml"
    provider.write_text(provider.read_text().replace("enabled: false", "enabled: true"))
    for path in [*(config / "workloads").rglob("*.yaml"), *(config / "teams").glob("*.yaml")]:
        if path.stem != "gpt-tiny-cpu":
            path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_HOME", str(folder / "home"))
        patch.setenv("PLUMBLINE_CONFIG", str(config))
        for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
            patch.delenv(name, raising=False)
        with AirflowServer(installation_paths().airflow_home).start() as running:
            yield running


def process(server: AirflowServer, component: str) -> psutil.Process:
    """The component's own process: the child of the supervisor, which names itself "airflow api_server …" once it runs."""
    supervisor = server._process
    assert supervisor is not None
    children = psutil.Process(supervisor.pid).children()
    (found,) = [child for child in children if component in " ".join(child.cmdline()).replace("_", "-")]
    return found


class Kill:
    """Kills a component once, at the first look at which the stage has begun. `at`: the task's state then."""

    def __init__(self, server: AirflowServer, client: AirflowClient, campaign: str, component: str, stage: str) -> None:
        self._server, self._client, self._campaign, self._component, self._stage = server, client, campaign, component, stage
        self.at: str | None = None

    def __call__(self, state: CampaignState) -> None:
        if state.stage == "starting":  # Airflow may not know the DAGs yet
            return
        if self.at is None and (found := self._begun()) is not None:
            self.at = found
            process(self._server, self._component).send_signal(signal.SIGKILL)

    def _begun(self) -> str | None:
        dag_id = self._stage if self._stage in ("drift_review", "scorecard_report") else DAG
        for run in self._client.runs(dag_id, self._server.started_at):
            for task in self._client.tasks(dag_id, run.run_id) if self._of_campaign(run.conf, dag_id, run.run_id) else ():
                last = task.task_id.rpartition(".")[2]
                if task.state in ("queued", "running", "success") and (dag_id != DAG or last == self._stage):
                    return task.state
        return None

    def _of_campaign(self, conf: object, dag_id: str, run_id: str) -> bool:
        if dag_id != "drift_review":
            return isinstance(conf, dict) and conf.get("campaign") == self._campaign
        return any(e.get("campaign_id") == self._campaign for e in self._client.upstream_events(dag_id, run_id))


@pytest.mark.fault(
    "each component of Airflow is killed at each stage", ends="restarted alone; every trial valid", keeps="each result, once"
)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_is_killed_costs_no_result(server: AirflowServer, component: str, stage: str) -> None:
    campaign = f"killed-{component}-{stage}".replace("_", "-")
    declared = load()
    asked = RunRequest(campaign, "a test", kinds=("training",), repeats=1)
    planned = planned_trials(declared, asked)
    up_since = process(server, component).create_time()
    while time.time() < up_since + STEADY_S + 1:  # one that ends sooner is taken for broken, and all are ended
        time.sleep(1)
    with server.client(patience_s=60) as client:
        kill = Kill(server, client, campaign, component, stage)
        outcome = run_campaign(server, declared, asked, planned, kill)
    assert kill.at is not None
    assert outcome.problems == ()
    assert [t.status for t in outcome.trials] == ["valid"] * len(outcome.trials)
    assert outcome.report is not None
    with open_archive() as archive:
        found = archive.trials(campaign)
        assert sorted(t.trial_id for t in found) == sorted(t.trial_id for t in outcome.trials)
        assert {t.status for t in found} == {"valid"}
        assert archive.verify() == []
