"""The course of a change without Airflow: looked at, told, measured, reviewed, in Slack. With it: tests/integration/test_airflow_watch.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest
from examples.driver_change import PROVIDER, change_driver, stage
from tests.fakes.fake_slack import FakeSlack

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Provider, load
from plumbline.declarations.installation import override_home
from plumbline.launch.plan import RunRequest, plan
from plumbline.launch.simulated.launcher import simulate
from plumbline.results.finding import Finding
from plumbline.workflows import check_provider, pending_changes
from plumbline.workflows.alert import send_alerts
from plumbline.workflows.plan import run_parameters
from plumbline.workflows.rehearse import trials_in
from plumbline.workflows.review import review_campaign

NOW = datetime.now(timezone.utc)
QUIET = [datetime(NOW.year - 1, month, 1, tzinfo=timezone.utc) for month in (1, 2, 3)]


@dataclass
class Run:
    """What Airflow says of a run that an event started."""

    run_type: str = "asset_triggered"
    run_after: datetime = NOW
    dag_id: str = "benchmark_simulated_h100"
    run_id: str = "asset_triggered__1"


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    with override_home(tmp_path, folder := stage(tmp_path)):
        yield folder


@pytest.fixture
def archive(config: Path) -> Iterator[Archive]:
    """Three quiet months and a look after them."""
    with open_archive() as opened:
        for month in QUIET:
            measure(opened, RunRequest(f"{month:%Y-%m}", "monthly rerun"), month)
        assert check_provider.check_environment(PROVIDER).news == ()
        yield opened


def provider() -> Provider:
    return load().providers[PROVIDER]


def measure(archive: Archive, asked: RunRequest, at: datetime) -> None:
    """A benchmark of that time, without launcher, store and checks."""
    monthly = trials_in(load(), provider(), at, asked) if asked.slot is None and at in QUIET else None
    for trial in plan(load(), provider(), asked, at, ("training",)) if monthly is None else monthly:
        archive.record(simulate(trial), uri="file:///nowhere")
    review_campaign(asked.campaign_id, PROVIDER)


def test_a_driver_that_changes_is_told_measured_explained_and_alerted(
    config: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pending_changes.decide_rerun(archive, provider(), NOW, active=0, paused=False).event is None
    change_driver(config, NOW)
    looked = check_provider.check_environment(PROVIDER)
    assert {"fact": "driver.version", "old": "550.90.07", "new": "570.86.15"} in looked.news
    event = pending_changes.decide_rerun(archive, provider(), NOW, active=0, paused=False).event
    assert event is not None and event["findings"] == list(looked.findings)
    pending_changes.record_event(archive, PROVIDER, event)
    asked = run_parameters(Run(), {}, NOW, changes=[event], on_change=provider().watch.workloads)
    pending_changes.record_measured(archive, PROVIDER, asked, [event], NOW)
    measure(archive, asked, NOW)
    found = {f.kind: Finding.of(f.detail).with_state(f.state) for f in archive.findings_of(PROVIDER)}
    assert set(found) == {"environment", "performance"}, "a fact has one finding, whoever saw it first"
    assert "driver.version" in found["performance"].attributed_to
    assert found["performance"].campaign_id == asked.campaign_id
    with FakeSlack() as server:
        extra = {"channel": "C0123456789", "base_url": server.url}
        monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps({"conn_type": "slack", "password": server.token, "extra": extra}))
        send_alerts()
        said = [
            message["blocks"][0]["text"]["text"] for message in server.shown() if message.get("thread_ts", message["ts"]) == message["ts"]
        ]
    assert len(said) == 2 and all("SIMULATED" in text for text in said)
    assert check_provider.check_environment(PROVIDER).news == ()
    assert pending_changes.providers_with_pending_changes(archive, load()) == []


def test_a_price_that_changes_starts_nothing(config: Path, archive: Archive) -> None:
    file = config / "providers" / f"{PROVIDER}.yaml"
    file.write_text(file.read_text().replace("49.24 USD/h", "39.24 USD/h"))
    assert check_provider.check_environment(PROVIDER).news == ()
    assert pending_changes.providers_with_pending_changes(archive, load()) == []
