"""Charts in the threads of findings, against a Slack that listens on loopback, with the real client and the real archive."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from slack_sdk import WebClient
from tests.data.result_documents import PLANNED, document, training_metrics, trial
from tests.fakes.fake_slack import CHANNEL, FakeSlack, Fault
from tests.fakes.trials import CONFIG

from plumbline.alerts.chart import Picture, attach
from plumbline.archive import Archive, FindingRecord, IncidentRecord, open_archive
from plumbline.workflows.alert import send_alerts
from plumbline.workflows.review import review_campaign

UPLOAD = ["files.getUploadURLExternal", "upload", "files.completeUploadExternal"]


def draw(finding_id: str) -> Picture | None:
    return (
        None
        if finding_id == "curveless"
        else Picture(f"plumbline-{finding_id}.png", "step time", "slower", b"\x89PNG" + finding_id.encode())
    )


@pytest.fixture
def server() -> Iterator[FakeSlack]:
    with FakeSlack(channels={CHANNEL, "C0000000002"}) as fake:
        yield fake


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        yield opened


def told(archive: Archive, client: WebClient, *names: str, channel: str = CHANNEL) -> None:
    """Findings whose messages stand in the channel."""
    for name in names:
        archive.save_findings([FindingRecord(name, "training/gpt@1/h1/torch/p/r/i", None, "p", "performance", "warn", "slower", {})])
        ts = str(client.chat_postMessage(channel=channel, text=name)["ts"])
        archive.save_incident(IncidentRecord(name, channel, ts, "open", "hash", "warn", {"opened": {"at": "2026-11-01", "ts": ts}}))


def test_each_thread_gets_its_chart_once(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    told(archive, client, "a", "b", "curveless")
    server.calls.clear()
    assert attach(archive.incidents(), draw, archive, client) == ["a", "b"]
    assert server.methods() == UPLOAD * 2
    assert attach(archive.incidents(), draw, archive, client) == [] and server.methods() == UPLOAD * 2
    for incident in archive.incidents()[:2]:
        (reply,) = server.thread(incident.ts)
        assert reply["files"][0]["id"] == incident.posts["chart"]["file"] and reply["files"][0]["alt_txt"] == "slower"
        assert incident.posts["opened"]["ts"] == incident.ts and incident.state == "open"
    assert archive.incidents()[2].posts.keys() == {"opened"}


def test_a_message_that_is_not_there_yet_waits(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    told(archive, client, "a")
    (incident,) = archive.incidents()
    assert attach([replace(incident, ts="")], draw, archive, client) == [] and server.files() == []


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("after_work", [False, True])
def test_a_cut_anywhere_leaves_one_chart(step: int, after_work: bool, server: FakeSlack, client: WebClient, archive: Archive) -> None:
    told(archive, client, "a")
    server.fail_next(*[Fault()] * step, Fault(cut=True, after_work=after_work))
    assert attach(archive.incidents(), draw, archive, client) == []
    again = attach(archive.incidents(), draw, archive, client)
    assert again == ["a"]
    assert len(server.files()) == 1 and archive.incidents()[0].posts["chart"]["file"] == server.files()[0].file_id
    assert attach(archive.incidents(), draw, archive, client) == [] and len(server.files()) == 1


def test_killed_between_the_upload_and_the_note_of_it(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    class Dies:
        """The archive of a process that ends right after the upload."""

        def save_incident(self, incident: IncidentRecord) -> None:
            if incident.posts["chart"]["ts"]:
                raise KeyboardInterrupt
            archive.save_incident(incident)

    told(archive, client, "a")
    with pytest.raises(KeyboardInterrupt):
        attach(archive.incidents(), draw, Dies(), client)
    for n in range(210):
        client.chat_postMessage(channel=CHANNEL, text=f"reply {n}", thread_ts=archive.incidents()[0].ts)
    assert attach(archive.incidents(), draw, archive, client) == ["a"] and len(server.files()) == 1
    assert archive.incidents()[0].posts["chart"]["file"] == server.files()[0].file_id


def test_what_refuses_one_channel_does_not_hold_up_another(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    told(archive, client, "a", "b")
    told(archive, client, "c", channel="C0000000002")
    server.archived = {CHANNEL}
    server.calls.clear()
    assert attach(archive.incidents(), draw, archive, client) == ["c"]
    assert server.methods() == UPLOAD * 2  # the second one of the closed channel was not even tried
    server.archived = set()
    assert attach(archive.incidents(), draw, archive, client) == ["a", "b"] and len(server.files()) == 3


def test_a_message_that_somebody_deleted_holds_up_no_other_chart(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    told(archive, client, "a", "b")
    del server.messages[CHANNEL][0]
    assert attach(archive.incidents(), draw, archive, client) == ["b"]


def test_a_token_that_is_revoked_is_asked_once(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    told(archive, client, "a", "b")
    told(archive, client, "c", channel="C0000000002")
    server.revoked = True
    server.calls.clear()
    assert attach(archive.incidents(), draw, archive, client) == [] and len(server.calls) == 1


def test_without_the_scope_it_says_which_one(
    server: FakeSlack, client: WebClient, archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    told(archive, client, "a")
    server.may_write_files = False
    log = logging.Logger("heard")
    log.addHandler(caplog.handler)
    assert attach(archive.incidents(), draw, archive, client, log) == []
    assert "files:write" in caplog.text
    server.may_write_files, server.may_read_history = True, False
    server.fail_next(Fault(cut=True))
    assert attach(archive.incidents(), draw, archive, client, log) == []
    assert attach(archive.incidents(), draw, archive, client, log) == ["a"] and "channels:history" in caplog.text


def test_from_two_campaigns_to_the_chart_in_the_thread(server: FakeSlack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"conn_type": "slack", "password": server.token, "extra": {"base_url": server.url, "channel": CHANNEL}}
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(settings))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    for month, (campaign, step_time) in enumerate((("2026-01", 0.1), ("2026-02", 0.2))):
        with open_archive() as archive:
            for repeat in range(1, 6):
                asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month))
                archive.record(document(asked, metrics=training_metrics(step_time * (1 + 0.001 * repeat))), uri="file:///nowhere")
        review_campaign(campaign)
    assert send_alerts()["posted"]
    send_alerts()
    (message,) = server.shown()
    details, reply = server.thread(message["ts"])
    (file,) = server.files()
    assert [block["type"] for block in message["blocks"]] == ["header", "section", "image", "context"]
    assert message["blocks"][2]["slack_file"]["id"] == file.file_id and "files" not in details
    assert reply["files"][0]["id"] == file.file_id and file.data.startswith(b"\x89PNG")
    assert all(named in file.alt_text for named in ("lab-2core", "2026-02", "+100 %"))
