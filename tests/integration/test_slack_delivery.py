"""Delivery against a Slack that listens on loopback, with the real client and the real archive."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.http_retry import ConnectionErrorRetryHandler
from tests.fakes.fake_slack import FakeSlack, Fault
from tests.fakes.kept_findings import keep

from plumbline.alerts import Alert, Slack, connect
from plumbline.alerts import deliver as deliver_cases
from plumbline.alerts.slack.connection import ShortRateLimit
from plumbline.archive import Archive, open_archive
from plumbline.results.finding import Finding, Member

CHANNEL = "C0123456789"


def finding(name: str = "a1b2c3d4e5f6", **changes: Any) -> Finding:
    made = Finding(
        finding_id=name,
        series_key="training/gpt@1/h1/torch/local-2core/here/host-2core",
        campaign_id="2026-11",
        kind="performance",
        severity="warn",
        evidence=f"WARN  local-2core · training gpt · step_time +4.0 % (95 %: +3.0 … +5.0), since campaign 2026-11, {name}",
        explanation="nothing recorded explains it",
        provider="local-2core",
        workload_kind="training",
        workload="gpt",
        subject="performance",
        title="step_time +4.0 %",
        members=(Member("step_time", "step_time +4.0 %"),),
        baseline_campaigns=("2026-10",),
    )
    return replace(made, **changes)


def deliver(findings: list[Finding], *args: Any, **more: Any) -> Any:
    return deliver_cases([Alert(f) for f in findings], *args, **more)


class Heard(logging.Handler):
    """A logger of its own: importing Airflow rearranges the others."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.logger = logging.Logger("heard", logging.INFO)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def slack(server: FakeSlack) -> Slack:
    retries = [ShortRateLimit(max_retry_count=2), ConnectionErrorRetryHandler(max_retry_count=0)]
    return Slack(WebClient(token=server.token, base_url=server.url, retry_handlers=retries, timeout=5), CHANNEL)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        keep(opened, finding(), finding("b"), finding("c"))
        yield opened


def test_one_message_goes_through_a_finding_s_life_and_is_updated_only_when_something_changed(
    server: FakeSlack, slack: Slack, archive: Archive
) -> None:
    life = [
        finding(),
        finding(),
        finding(state="acknowledged"),
        finding(state="acknowledged", title="step_time +4.1 %"),
        finding(state="resolved"),
        finding(state="resolved"),
        finding(),
    ]
    seen = [deliver([step], archive, slack) for step in life]
    assert server.methods() == ["chat.postMessage", "chat.update", "chat.update", "chat.update", "chat.update"]
    assert [bool(d.posted) for d in seen] == [True, *[False] * 6]
    assert [bool(d.unchanged) for d in seen] == [False, True, False, False, False, True, False]
    (message,) = server.shown()
    assert message["blocks"][0]["text"]["text"].startswith("WARN")
    (incident,) = archive.incidents(finding().finding_id)
    assert (incident.channel, incident.ts, incident.state) == (CHANNEL, message["ts"], "open")


@pytest.mark.fault("no Slack connection", ends="log only", keeps="the finding, in the log")
def test_without_slack_the_log_has_it(archive: Archive, heard: Heard) -> None:
    done = deliver([finding(), finding("b")], archive, log=heard.logger)
    assert done.log_only == [finding().finding_id, "b"] and archive.incidents() == []
    assert heard.text.count("step_time +4.0 %") >= 2


def test_a_finding_that_was_over_before_it_was_told_is_not_told(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    assert deliver([finding(state="resolved")], archive, slack).log_only and server.calls == []


@pytest.mark.fault("Slack asks to wait shortly", ends="posted", keeps="one message")
def test_a_short_rate_limit_is_waited_for(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(status=429, retry_after=0))
    assert deliver([finding()], archive, slack).posted
    assert server.methods() == ["chat.postMessage"] * 2 and len(server.shown()) == 1


@pytest.mark.fault("Slack asks to wait for an hour", ends="undelivered, then posted", keeps="the finding, for the next run")
def test_a_long_rate_limit_is_left_to_the_next_run(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(status=429, retry_after=3600))
    done = deliver([finding(), finding("b")], archive, slack)
    # The second one isn't even tried: it would be refused the same way.
    assert done.undelivered == [finding().finding_id, "b"] and len(server.calls) == 1
    assert {i.state for i in archive.incidents()} == {"undelivered"}
    assert deliver([finding(), finding("b")], archive, slack).posted == [finding().finding_id, "b"]
    assert len(server.shown()) == 2


@pytest.mark.parametrize("trouble", ["revoked", "archived", "unknown_channel", "wrong_token"])
@pytest.mark.fault(
    "Slack refuses: revoked, archived, unknown channel, token", ends="undelivered, then posted", keeps="the finding, for the next run"
)
def test_a_slack_that_refuses_loses_nothing(trouble: str, server: FakeSlack, slack: Slack, archive: Archive, heard: Heard) -> None:
    server.revoked = trouble == "revoked"
    server.archived = {CHANNEL} if trouble == "archived" else set()
    server.channels = set() if trouble == "unknown_channel" else {CHANNEL}
    server.token = "xoxb-other" if trouble == "wrong_token" else server.token
    assert deliver([finding()], archive, slack, log=heard.logger).undelivered
    assert "undelivered in" in heard.text
    server.revoked, server.archived, server.channels, server.token = False, set(), {CHANNEL}, "xoxb-fake"
    assert deliver([finding()], archive, slack).posted and len(server.shown()) == 1


@pytest.mark.fault("Slack refuses one message", ends="that one undelivered", keeps="the others are posted")
def test_a_message_that_slack_will_not_take_does_not_hold_up_the_others(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(error="invalid_blocks"))
    done = deliver([finding(), finding("b")], archive, slack)
    assert (done.undelivered, done.posted) == ([finding().finding_id], ["b"])


@pytest.mark.parametrize(
    "fault", [Fault(cut=True, after_work=True), Fault(status=503, after_work=True), Fault(error="internal_error", after_work=True)]
)
@pytest.mark.fault("Slack's answer is lost after the post", ends="posted once", keeps="one message, found in the channel")
def test_an_answer_that_got_lost_does_not_post_twice(fault: Fault, server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(fault)
    assert deliver([finding()], archive, slack).undelivered and len(server.shown()) == 1
    assert deliver([finding()], archive, slack).posted
    assert len(server.shown()) == 1 and server.methods() == ["chat.postMessage", "conversations.history"]
    (incident,) = archive.incidents()
    assert (incident.ts, incident.state) == (server.shown()[0]["ts"], "open")


@pytest.mark.fault("a request to Slack never arrives", ends="undelivered, then posted", keeps="the finding, for the next run")
def test_a_request_that_never_arrived_is_posted_by_the_next_run(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(cut=True))
    assert deliver([finding()], archive, slack).undelivered and server.shown() == []
    assert deliver([finding()], archive, slack).posted and len(server.shown()) == 1


@pytest.mark.fault("killed between a post and its record", ends="posted once", keeps="one message, found in the channel")
def test_killed_between_the_post_and_the_note_of_it(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    class Dies:
        """The archive of a process that ends right after the post."""

        incidents = archive.incidents

        def save_incident(self, incident: Any) -> None:
            if incident.ts:
                raise KeyboardInterrupt
            archive.save_incident(incident)

    with pytest.raises(KeyboardInterrupt):
        deliver([finding()], Dies(), slack)
    for other in range(250):
        slack.client.chat_postMessage(channel=CHANNEL, text=f"small talk {other}")
    assert deliver([finding()], archive, slack).posted
    told = [m for m in server.shown() if m.get("metadata")]
    assert len(told) == 1 and archive.incidents()[0].ts == told[0]["ts"]


def test_doubt_stays_doubt_while_the_channel_cannot_be_read(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(cut=True, after_work=True))
    deliver([finding()], archive, slack)
    server.fail_next(Fault(error="ratelimited"))
    assert deliver([finding()], archive, slack).undelivered and archive.incidents()[0].state == "posting"
    assert deliver([finding()], archive, slack).posted and len(server.shown()) == 1


def test_without_the_right_to_read_it_posts_rather_than_stays_silent(
    server: FakeSlack, slack: Slack, archive: Archive, heard: Heard
) -> None:
    server.fail_next(Fault(cut=True, after_work=True))
    deliver([finding()], archive, slack)
    server.may_read_history = False
    assert deliver([finding()], archive, slack, log=heard.logger).posted
    assert "channels:history" in heard.text


@pytest.mark.fault("a person deletes the message of a finding", ends="posted again", keeps="the finding")
def test_a_message_that_somebody_deleted_is_posted_anew(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    deliver([finding()], archive, slack)
    server.messages.clear()
    assert deliver([finding(severity="page")], archive, slack).posted and len(server.shown()) == 1


@pytest.mark.fault("an update of a message fails", ends="updated by the next run", keeps="one message")
def test_an_update_that_failed_is_made_up_for(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    deliver([finding()], archive, slack)
    server.revoked = True
    assert deliver([finding(state="acknowledged")], archive, slack).undelivered
    server.revoked = False
    # Nothing changed since, but what is shown is old.
    assert deliver([finding(state="acknowledged")], archive, slack).updated
    assert server.shown()[0]["blocks"][0]["text"]["text"].startswith("WARN (acknowledged)") and len(server.shown()) == 1


@pytest.mark.fault("Slack does not answer", ends="undelivered", keeps="the findings, for the next run")
def test_nobody_listens(slack: Slack, server: FakeSlack, archive: Archive) -> None:
    server._server.shutdown()
    server._server.server_close()
    assert deliver([finding(), finding("b")], archive, slack).undelivered == [finding().finding_id, "b"]
    assert {i.state for i in archive.incidents()} == {"undelivered"}
    server._thread.join()


def test_the_airflow_connection(server: FakeSlack, archive: Archive, monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    assert connect("plumbline_slack_absent", heard.logger) is None and "no Slack connection" in heard.text
    settings = {"conn_type": "slack", "password": server.token, "extra": {"base_url": server.url, "channel": "#alerts"}}
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(settings))
    assert connect(log=heard.logger) is None and "#alerts" in heard.text
    settings["extra"] = {"base_url": server.url.replace("127.0.0.1", "0.0.0.0"), "channel": CHANNEL}
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(settings))
    assert connect(log=heard.logger) is None and "send the token in clear" in heard.text
    settings["extra"] = {"base_url": server.url, "channel": CHANNEL}
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(settings))
    slack = connect()
    assert slack is not None and slack.client.auth_test()["ok"]
    assert deliver([finding()], archive, slack).posted and len(server.shown()) == 1
