"""Details in the threads of findings, and a chart that Slack refuses, against a Slack that listens on loopback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from slack_sdk import WebClient
from tests.fakes.fake_slack import CHANNEL, FakeSlack, Fault

from plumbline.alerts.channel import UPDATED, ChannelError, Post
from plumbline.alerts.message import AlertContext, Message, render, render_details
from plumbline.alerts.preview import EXAMPLE_FINDING
from plumbline.alerts.slack_channel import SlackChannel, attach_details
from plumbline.archive import Archive, FindingRecord, IncidentRecord, open_archive

NAME = EXAMPLE_FINDING.finding_id


@pytest.fixture
def archive(tmp_path: Path, client: WebClient) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        opened.save_findings([FindingRecord(NAME, "", None, "p", "performance", "page", "slower", EXAMPLE_FINDING.to_dict())])
        ts = str(client.chat_postMessage(channel=CHANNEL, text=NAME)["ts"])
        opened.save_incident(IncidentRecord(NAME, CHANNEL, ts, "open", "hash", "page", {"opened": {"at": "2026-11-01", "ts": ts}}))
        yield opened


def details(_: str) -> Message:
    return render_details(EXAMPLE_FINDING)


def acknowledged(_: str) -> Message:
    return render_details(EXAMPLE_FINDING.with_state("acknowledged"))


def test_details_are_posted_once_and_updated_in_place(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    assert attach_details(archive.incidents(), details, archive, client) == [NAME]
    assert attach_details(archive.incidents(), details, archive, client) == []
    (reply,) = server.thread(server.shown()[0]["ts"])
    assert reply["blocks"] == list(details(NAME).blocks) and "subtype" not in reply
    assert attach_details(archive.incidents(), acknowledged, archive, client) == [NAME]
    (reply,) = server.thread(server.shown()[0]["ts"])
    assert reply["blocks"] == list(acknowledged(NAME).blocks)


@pytest.mark.parametrize("after_work", [False, True])
def test_a_cut_leaves_one_reply(after_work: bool, server: FakeSlack, client: WebClient, archive: Archive) -> None:
    server.fail_next(Fault(cut=True, after_work=after_work))
    assert attach_details(archive.incidents(), details, archive, client) == []
    assert attach_details(archive.incidents(), details, archive, client) == [NAME]
    assert len(server.thread(server.shown()[0]["ts"])) == 1
    assert attach_details(archive.incidents(), details, archive, client) == []


def test_a_refused_chart_leaves_the_message_without_it(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    (incident,) = archive.incidents()
    message = render(EXAMPLE_FINDING, context=AlertContext(chart=("F1", "step time")))
    channel = SlackChannel(client, CHANNEL, logging.Logger("unheard"))
    server.fail_next(Fault(error="invalid_blocks"))
    channel.send(Post("finding", NAME, UPDATED, message, incident.ts))
    assert [block["type"] for block in server.shown()[0]["blocks"]] == ["header", "section", "context"]
    channel.send(Post("finding", NAME, UPDATED, message, incident.ts))
    assert [block["type"] for block in server.shown()[0]["blocks"]] == ["header", "section", "image", "context"]


def test_other_refusals_are_no_matter_of_the_chart(server: FakeSlack, client: WebClient, archive: Archive) -> None:
    (incident,) = archive.incidents()
    server.fail_next(Fault(error="invalid_blocks"))
    with pytest.raises(ChannelError):
        SlackChannel(client, CHANNEL).send(Post("finding", NAME, UPDATED, render(EXAMPLE_FINDING), incident.ts))
