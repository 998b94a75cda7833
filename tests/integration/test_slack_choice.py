"""A team's first choice that changed, from the report's task to Slack: told once, brought up to date, and over when the former one is back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fakes.fake_slack import CHANNEL, FakeSlack
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write

from plumbline.archive import Archive, open_archive
from plumbline.workflows.alert import send_alerts


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: FakeSlack) -> Iterator[Archive]:
    declared = world()
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(declared, tmp_path / "config")))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    settings = {"conn_type": "slack", "password": server.token, "extra": {"base_url": server.url, "channel": CHANNEL}}
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(settings))
    (tmp_path / "home").mkdir()
    with open_archive() as opened:
        measure(opened, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        yield opened


def report_decides() -> list[str]:
    from plumbline.airflow.tasks.review import decide

    run = SimpleNamespace(run_type="manual", run_after=datetime.now(timezone.utc))
    found: list[str] = decide.function(dag_run=run, params={"campaign": "2025-11"})
    return found


def test_a_first_choice_that_changed_is_told_once_and_is_over_when_it_turns_back(server: FakeSlack, archive: Archive) -> None:
    assert CHEAP in report_decides()[0]
    assert server.shown() == [] and "2025-11" in archive.decisions()[0].detail["why"]
    measure(archive, world(), {CHEAP: spread(0.2)}, campaign="2025-12")
    assert FAST in report_decides()[0]
    (shown,) = server.shown()
    assert all(named in shown["text"] for named in (FAST, CHEAP, "2025-12", "--team platform"))
    report_decides()
    send_alerts()
    assert [m["text"] for m in server.shown()] == [shown["text"]], "told once"
    measure(archive, world(), {CHEAP: spread(0.1)}, campaign="2026-01")
    report_decides()
    (over,) = server.shown()
    assert over["ts"] == shown["ts"] and "RESOLVED" in over["text"]
