"""The fake Slack refuses what the real one refuses, and takes what it takes: asked through Slack's own client."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from tests.fakes.fake_slack import CHANNEL, FakeSlack, Fault

PNG = b"\x89PNG\r\n" + b"0" * 50
MRKDWN = {"type": "mrkdwn", "text": "x"}
PLAIN = {"type": "plain_text", "text": "x"}


def mrkdwn(length: int) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": "x" * length}


def section(**parts: Any) -> list[dict[str, Any]]:
    return [{"type": "section", **parts}]


TAKEN = {
    "header at its limit": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 150}}],
    "section at its limit": section(text=mrkdwn(3000)),
    "ten fields": section(fields=[MRKDWN] * 10),
    "a button with a link": section(text=MRKDWN, accessory={"type": "button", "text": PLAIN, "url": "https://a.example/b"}),
    "actions": [{"type": "actions", "elements": [{"type": "button", "text": PLAIN, "url": "http://host:8080/x", "style": "primary"}]}],
    "ten of context": [{"type": "context", "elements": [MRKDWN] * 10}],
    "a picture": [{"type": "image", "image_url": "https://a.example/p.png", "alt_text": "what it shows", "title": PLAIN}],
    "fifty dividers": [{"type": "divider"}] * 50,
    "markdown": [{"type": "markdown", "text": "**x**"}],
}
REFUSED = {
    "unknown block": ([{"type": "marquee"}], "unsupported type"),
    "no object": (["divider"], "unsupported type"),
    "unknown field": (section(text=MRKDWN, colour="red"), "unknown field: colour"),
    "unknown field of a text": (section(text={**MRKDWN, "color": "red"}), "unknown field: color"),
    "emoji in mrkdwn": (section(text={**MRKDWN, "emoji": True}), "unknown field: emoji"),
    "long header": ([{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}], "150"),
    "mrkdwn header": ([{"type": "header", "text": MRKDWN}], "plain_text"),
    "long section": (section(text=mrkdwn(3001)), "3000|3001"),
    "empty section": (section(), "text or fields|text or field"),
    "empty text": (section(text={"type": "mrkdwn", "text": ""}), "more than 0"),
    "long field": (section(fields=[mrkdwn(2001)]), "2001"),
    "eleven fields": (section(fields=[MRKDWN] * 11), "10"),
    "eleven of context": ([{"type": "context", "elements": [MRKDWN] * 11}], "10"),
    "empty context": ([{"type": "context", "elements": []}], "no fewer than 1"),
    "button in context": ([{"type": "context", "elements": [{"type": "button", "text": PLAIN}]}], "unsupported type: button"),
    "button to nowhere": (section(text=MRKDWN, accessory={"type": "button", "text": PLAIN, "url": "/x"}), "invalid url"),
    "long button": ([{"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "x" * 76}}]}], "75|76"),
    "unknown field of a button": ([{"type": "actions", "elements": [{"type": "button", "text": PLAIN, "href": "https://a"}]}], "href"),
    "picture without words": ([{"type": "image", "image_url": "https://a.example/p.png"}], "alt_text"),
    "picture that only we see": ([{"type": "image", "image_url": "http://127.0.0.1/p.png", "alt_text": "x"}], "downloading image failed"),
    "fifty-one blocks": ([{"type": "divider"}] * 51, "no more than 50"),
    "the same id twice": ([{"type": "divider", "block_id": "a"}] * 2, "unique"),
}


@pytest.mark.parametrize("blocks", TAKEN.values(), ids=TAKEN)
def test_blocks_that_are_taken(blocks: list[dict[str, Any]], server: FakeSlack, client: WebClient) -> None:
    client.chat_postMessage(channel=CHANNEL, text="t", blocks=blocks)
    assert server.shown()[0]["blocks"] == blocks


@pytest.mark.parametrize(("blocks", "why"), REFUSED.values(), ids=REFUSED)
def test_blocks_that_are_refused(blocks: list[dict[str, Any]], why: str, server: FakeSlack, client: WebClient) -> None:
    with pytest.raises(SlackApiError, match="invalid_blocks") as refused:
        client.chat_postMessage(channel=CHANNEL, text="t", blocks=blocks)
    messages = refused.value.response["response_metadata"]["messages"]
    assert len(messages) >= 1 and any(part in " ".join(messages) for part in why.split("|")), messages
    assert server.shown() == []


def test_a_text_too_many(server: FakeSlack, client: WebClient) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(SlackApiError, match="no_text"):
            client.chat_postMessage(channel=CHANNEL, text="")
    with pytest.raises(SlackApiError, match="msg_too_long"):
        client.chat_postMessage(channel=CHANNEL, text="x" * 40_001)
    with pytest.raises(SlackApiError, match="msg_blocks_too_long"):
        client.chat_postMessage(channel=CHANNEL, text="t", blocks=[*section(text=mrkdwn(3000))] * 5)
    ts = client.chat_postMessage(channel=CHANNEL, text="x" * 40_000)["ts"]
    with pytest.raises(SlackApiError, match="msg_too_long"):
        client.chat_update(channel=CHANNEL, ts=ts, text="x" * 4_001)
    client.chat_update(channel=CHANNEL, ts=ts, text="x" * 4_000)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"event_type": "a", "event_payload": {"b": 1}}, None),
        ({"event_type": "a"}, "invalid_metadata_format"),
        ({"event_type": "a", "event_payload": {}, "finding": 1}, "invalid_metadata_format"),
        ({"event_type": "a", "event_payload": {"b": "x" * 20_000}}, "metadata_too_large"),
    ],
)
def test_metadata(metadata: dict[str, Any], error: str | None, server: FakeSlack, client: WebClient) -> None:
    if error is None:
        client.chat_postMessage(channel=CHANNEL, text="t", metadata=metadata)
        assert "metadata" not in client.conversations_history(channel=CHANNEL)["messages"][0]
        assert client.conversations_history(channel=CHANNEL, include_all_metadata=True)["messages"][0]["metadata"] == metadata
    else:
        with pytest.raises(SlackApiError, match=error):
            client.chat_postMessage(channel=CHANNEL, text="t", metadata=metadata)


def test_who_may_write_where(server: FakeSlack, client: WebClient) -> None:
    def refused(error: str, **changes: Any) -> None:
        before = {name: getattr(server, name) for name in changes}
        for name, value in changes.items():
            setattr(server, name, value)
        with pytest.raises(SlackApiError, match=error):
            client.chat_postMessage(channel=CHANNEL, text="t")
        for name, value in before.items():
            setattr(server, name, value)

    refused("invalid_auth", token="xoxb-other")
    refused("token_revoked", revoked=True)
    refused("channel_not_found", channels=set())
    refused("not_in_channel", not_in={CHANNEL})
    refused("is_archived", archived={CHANNEL})
    with pytest.raises(SlackApiError, match="not_authed"):
        WebClient(base_url=server.url).auth_test()
    with pytest.raises(SlackApiError, match="unknown_method"):
        client.api_call("chat.meow")
    server.archived = {CHANNEL}
    assert client.conversations_history(channel=CHANNEL)["messages"] == []
    server.may_read_history = False
    with pytest.raises(SlackApiError, match="missing_scope"):
        client.conversations_history(channel=CHANNEL)


def test_files_that_are_refused(server: FakeSlack, client: WebClient) -> None:
    with pytest.raises(SlackApiError, match="alt_txt_too_large"):
        client.files_upload_v2(channel=CHANNEL, content=PNG, filename="a.png", alt_txt="x" * 1001)
    with pytest.raises(SlackApiError, match="invalid_arguments"):
        client.files_getUploadURLExternal(filename="a.png", length=0)
    with pytest.raises(SlackApiError, match="thread_not_found"):
        client.files_upload_v2(channel=CHANNEL, content=PNG, filename="a.png", thread_ts="1.000000")
    ticket = client.files_getUploadURLExternal(filename="a.png", length=len(PNG))["file_id"]
    with pytest.raises(SlackApiError, match="file_not_found"):
        client.files_completeUploadExternal(files=[{"id": ticket}], channel_id=CHANNEL)
    with pytest.raises(SlackApiError, match="invalid_arguments"):
        client.files_completeUploadExternal(files=[{"title": "no id"}], channel_id=CHANNEL)
    server.archived = {CHANNEL}
    with pytest.raises(SlackApiError, match="is_archived"):
        client.files_upload_v2(channel=CHANNEL, content=PNG, filename="a.png")
    server.may_write_files = False
    with pytest.raises(SlackApiError, match="missing_scope"):
        client.files_upload_v2(channel=CHANNEL, content=PNG, filename="a.png")
    assert server.files() == []


def test_a_rate_limit_says_when_to_come_again(server: FakeSlack, client: WebClient) -> None:
    with pytest.raises(ValueError, match="Retry-After"):
        Fault(status=429)
    server.fail_next(Fault(status=429, retry_after=7))
    with pytest.raises(SlackApiError, match="ratelimited") as limited:
        client.chat_postMessage(channel=CHANNEL, text="t")
    assert limited.value.response.headers["retry-after"] == "7"
    client.chat_postMessage(channel=CHANNEL, text="t")
