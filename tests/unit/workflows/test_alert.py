"""What a finding's message says beside it, from an archive and declarations; and that one process at a time tells."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.kept_findings import keep
from tests.unit.alerts.test_message import FINDING

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Alerts, Declarations, Route, load
from plumbline.declarations.alerts import RentedVolume
from plumbline.findings.headline import headline
from plumbline.results.finding import Member
from plumbline.workflows import alert
from plumbline.workflows.alert import alert_of

KEY = trial().series_key
SLOWER = replace(
    FINDING, finding_id="f1", provider="local-2core", series_key=KEY, series=(KEY,), standing=(KEY,), campaign_id="2025-11",
    members=(Member("step_time", "step_time +10 %", 0.1, verdict="regressed", series_key=KEY),),
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    return tmp_path


@pytest.fixture
def archive(home: Path) -> Iterator[Archive]:
    with open_archive() as opened:
        opened.record(document(), uri="file:///store")
        keep(opened, SLOWER)
        yield opened


SHIPPED = cache(load)


def declared(**alerts: object) -> Declarations:
    return replace(SHIPPED(), alerts=Alerts.model_construct(**{**{k: getattr(Alerts(), k) for k in Alerts.model_fields}, **alerts}))


def test_a_finding_with_all_that_is_known_beside_it(archive: Archive) -> None:
    world = declared(
        airflow_url="https://airflow.example.com/",
        routes=(Route(owner="U0123456789"),),
        volumes=(RentedVolume.model_construct(provider="local-*", workload=None, time_per_month=3600.0 * 730, purchase="on_demand"),),
    )
    archive.accept_price("local-2core", "on_demand", None, 2.0, datetime.now(timezone.utc).date(), "a test", by="ada", why="read")
    context = alert_of(archive, world, archive.finding("f1")).context
    assert context.owner == "U0123456789" and "about 49 USD a month" in context.cost
    assert {url.removeprefix("https://airflow.example.com/") for url, _ in context.links} == {
        "plumbline/findings/f1",
        "required_actions?response_received=false",
        "plumbline/campaigns/2025-11",
        f"plumbline/trials/{trial().trial_id}",
    }
    assert context.came_back == "" and context.snoozed_until is None


def test_without_declarations_or_an_address_there_is_less_to_say(archive: Archive) -> None:
    context = alert_of(archive, None, archive.finding("f1")).context
    assert (context.owner, context.cost) == (None, "")
    assert "`volumes` in alerts.yaml" in alert_of(archive, declared(), archive.finding("f1")).context.cost


def test_outside_of_airflow_links_lead_to_the_one_that_commands_reach(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "airflow.configuration", raising=False)
    for name in ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__API__BASE_URL", "PLUMBLINE_AIRFLOW_URL"):
        monkeypatch.delenv(name, raising=False)
    assert alert_of(archive, declared(), archive.finding("f1")).context.links == ()
    monkeypatch.setenv("PLUMBLINE_AIRFLOW_URL", "https://team.example.com")
    assert alert_of(archive, declared(), archive.finding("f1")).context.links[0][0].startswith("https://team.example.com/plumbline/")
    assert "airflow.configuration" not in sys.modules, "it would make a home for itself"


def test_one_that_was_resolved_shortly_before_has_come_back(archive: Archive) -> None:
    archive.set_finding_state("f1", "resolved", by="ada", why="gone")
    keep(archive, replace(SLOWER, finding_id="f2", campaign_id="2025-12"))
    case = alert_of(archive, declared(), archive.finding("f2"))
    assert case.earlier == "f1" and case.context.came_back.endswith("was finding f1")
    assert alert_of(archive, declared(reopen_within=0.0), archive.finding("f2")).earlier is None
    keep(archive, replace(SLOWER, finding_id="f3", provider="lab-2core"))
    assert alert_of(archive, declared(), archive.finding("f3")).earlier is None


def test_a_snooze_is_told_while_it_lasts(archive: Archive) -> None:
    until = datetime.now(timezone.utc) + timedelta(days=1)
    archive.snooze_finding("f1", until, "ada", "later")
    assert alert_of(archive, declared(), archive.finding("f1")).context.snoozed_until == until
    assert alert_of(archive, declared(), archive.finding("f1"), until + timedelta(hours=1)).context.snoozed_until is None


class Heard(logging.Logger):
    def __init__(self) -> None:
        super().__init__("heard", logging.INFO)
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_declarations_that_cannot_be_read_keep_no_finding_from_people(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "nowhere"))
    heard = Heard()
    assert alert.send_alerts(heard)["log_only"] == ["f1"]
    assert any("nowhere" in line for line in heard.lines) and any(headline(SLOWER) in line for line in heard.lines)


def test_while_another_process_tells_this_one_leaves_it_to_that(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert, "PATIENCE_S", 0.2)
    with archive.alone(alert.LOCK, 5):
        heard = Heard()
        assert not any(alert.send_alerts(heard).values()) and "lock" in heard.lines[-1]
    assert alert.send_alerts(Heard())["log_only"] == ["f1"]
