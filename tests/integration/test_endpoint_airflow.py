"""A hosted model as a provider of a real Airflow: the benchmark DAG's task asks Airflow for the key, measures, collects and records."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.openai_server import Hosted, Plan

from plumbline.archive import open_archive
from plumbline.declarations import installation_paths, load
from plumbline.embedded.campaign import CampaignOutcome, run_campaign
from plumbline.embedded.connections import airflow_environment, prepare
from plumbline.embedded.server import AirflowServer
from plumbline.launch.plan import RunRequest, planned_trials
from plumbline.results import ResultStore

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-planted-51f0a3d9"
PROVIDER = """
name: hosted
description: a hosted model that the test runs
cloud: nowhere
region: here
instance_type: serverless
accelerator: {{kind: nvidia, count: 1}}
launcher: {{kind: endpoint, url: "{url}", protocol: openai, model: chat, connection: hosted_key, machine: hosted-{pid}, timeout: 5min}}
"""
SHORT = """
phases:
  - {name: warmup, arrivals: {poisson: {rate: 10/s}}, duration: 1s}
  - {name: steady, arrivals: {poisson: {rate: 20/s}}, duration: 4s}
repeats: {per_slot: 1, slots: ["02:00"]}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The declarations of an installation of its own, with one workload and no provider yet."""
    folder = Path(shutil.copytree(ROOT / "include" / "config", tmp_path / "config", ignore=shutil.ignore_patterns("economics.yaml")))
    for path in [*(folder / "providers").glob("*"), *(folder / "teams").glob("*"), *(folder / "workloads").rglob("*.yaml")]:
        if path.stem != "chat-hosted":
            path.unlink()
    workload = folder / "workloads" / "inference" / "chat-hosted.yaml"
    dropped = ("on_demand_only:", "phases:", "repeats:", "acceptance:", "  - ")
    kept = "\n".join(line for line in workload.read_text().splitlines() if not line.startswith(dropped))
    workload.write_text(kept.replace("other_region", "same_node") + SHORT)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    # The embedded Airflow of this installation, and no other one that the environment may name.
    for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL", "AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    return folder


def measured() -> CampaignOutcome:
    """One campaign, with the key given to Airflow as a person would give it."""
    prepare()
    added = [sys.executable, "-m", "airflow", "connections", "add", "hosted_key", "--conn-type", "http", "--conn-password", KEY]
    done = subprocess.run(added, env=airflow_environment(os.environ), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    declared, asked = load(), RunRequest("hosted", "a test")
    server = AirflowServer(installation_paths().airflow_home)
    with server.start():
        return run_campaign(server, declared, asked, planned_trials(declared, asked), lambda _: None)


def test_a_campaign_on_a_hosted_model(config: Path, tmp_path: Path) -> None:
    with Hosted(Plan(first_s=0.02, gap_s=0.001, key=KEY)) as hosted:
        (config / "providers" / "hosted.yaml").write_text(PROVIDER.format(url=f"{hosted.url}/v1", pid=os.getpid()))
        outcome = measured()
    assert outcome.problems == ()
    (trial,) = outcome.trials
    assert trial.phase == "measured"
    with open_archive() as archive:
        (found,) = archive.trials("hosted")
    assert found.status in ("valid", "degraded", "invalid"), "a busy machine is no failure"
    document = ResultStore(installation_paths().results_url).collected(f"hosted/{trial.trial_id}/attempt-1")
    rows = {(row.phase, row.metric, row.statistic): row for row in document.metrics}
    assert rows["steady", "error_rate", "value"].value == 0
    asked = 1 + rows["warmup", "error_rate", "value"].n + rows["steady", "error_rate", "value"].n
    assert len(hosted.records) == asked, "each request came once: what is measured and the one that warms up"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in written if KEY.encode() in path.read_bytes()] == [], "the key lies nowhere in clear"
