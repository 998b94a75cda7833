"""The monthly digest against a Slack that listens on loopback, with the real client and the real archive."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from slack_sdk import WebClient
from tests.fakes.fake_slack import CHANNEL, FakeSlack, Fault
from tests.fakes.kept_findings import keep
from tests.fakes.trials import CONFIG

from plumbline.alerts import ChannelError, Message, Slack
from plumbline.alerts.digest import post_digest
from plumbline.alerts.slack_channel import SlackChannel
from plumbline.archive import Archive, open_archive
from plumbline.findings.headline import headline
from plumbline.results.finding import Finding
from plumbline.workflows import alert

POST, UPDATE, HISTORY = "chat.postMessage", "chat.update", "conversations.history"


def message(text: str = "three findings") -> Message:
    return Message(text, ({"type": "section", "text": {"type": "mrkdwn", "text": text}},))


def channel(slack: Slack) -> tuple[str, SlackChannel]:
    return slack.channel, SlackChannel(slack.client, slack.channel)


@pytest.fixture
def slack(server: FakeSlack) -> Slack:
    return Slack(WebClient(token=server.token, base_url=server.url, retry_handlers=[], timeout=5), CHANNEL)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with open_archive() as opened:
        yield opened


def test_one_message_a_month_brought_up_to_date(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    seen = [post_digest("2026-11", message(text), archive, *channel(slack)) for text in ("three", "three", "two")]
    assert seen == ["posted", "unchanged", "updated"] and server.methods() == [POST, UPDATE]
    assert [m["text"] for m in server.shown()] == ["two"]
    assert post_digest("2026-12", message("four"), archive, *channel(slack)) == "posted"
    assert [m["text"] for m in server.shown()] == ["two", "four"]


@pytest.mark.parametrize("after_work", [False, True])
def test_a_lost_answer_posts_once(after_work: bool, server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(status=503, after_work=after_work))
    with pytest.raises(ChannelError):
        post_digest("2026-11", message(), archive, *channel(slack))
    assert post_digest("2026-11", message(), archive, *channel(slack)) == ("updated" if after_work else "posted")
    assert server.methods() == [POST, HISTORY, UPDATE if after_work else POST] and len(server.shown()) == 1


def test_from_the_archive_to_the_channel(server: FakeSlack, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(
        finding_id="a1b2c3d4e5f6",
        series_key="training/gpt-tiny-cpu@1/h1/torch/local-2core/here/host",
        campaign_id=None,
        since="2026-11-20",
        kind="performance",
        severity="warn",
        evidence="WARN  local-2core · training gpt-tiny-cpu · step_time +4.0 %",
        explanation="",
        provider="local-2core",
        workload_kind="training",
        workload="gpt-tiny-cpu",
        subject="performance",
        title="step_time +4.0 %",
        series=("training/gpt-tiny-cpu@1/h1/torch/local-2core/here/host",),
    )
    keep(archive, found)
    now = datetime.now(timezone.utc)
    assert alert.send_digest() == "log_only"
    settings = {"conn_type": "slack", "password": server.token, "extra": {"base_url": server.url, "channel": CHANNEL}}
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(settings))
    assert [alert.send_digest(), alert.send_digest()] == ["posted", "unchanged"]
    (shown,) = server.shown()
    assert alert.previous_month(now) in shown["text"] and "1 open finding" in shown["text"]
    assert headline(found) in shown["text"] and "platform" in shown["text"]
    archive.set_finding_state(found.finding_id, "resolved", by="me", why="mended")
    assert alert.send_digest() == "updated" and "nothing compared yet" in server.shown()[0]["text"]
    assert alert.send_digest(f"{now:%Y-%m}") == "posted" and "1 finding resolved" in server.shown()[1]["text"]


def test_only_the_scheduled_run_tells(archive: Archive) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    from plumbline.airflow.tasks.review import digest

    runs = {
        kind: SimpleNamespace(run_type=kind, run_after=datetime(2026, 12, 2, 12, tzinfo=timezone.utc)) for kind in ("scheduled", "manual")
    }
    assert digest.function(dag_run=runs["scheduled"]) == "log_only"
    with pytest.raises(AirflowSkipException, match="plumbline alerts digest"):
        digest.function(dag_run=runs["manual"])


@pytest.mark.parametrize("month", ["2026-13", "11/2026", "2026-1"])
def test_what_is_no_month(month: str, archive: Archive) -> None:
    with pytest.raises(ValueError, match=re.escape(month)):
        alert.send_digest(month)


def test_the_month_that_ended_last() -> None:
    assert alert.previous_month(datetime(2026, 1, 2, 12, tzinfo=timezone.utc)) == "2025-12"
    assert alert.previous_month(datetime(2026, 3, 31, tzinfo=timezone.utc)) == "2026-02"
