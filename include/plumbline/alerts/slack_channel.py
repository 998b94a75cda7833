"""Slack as an alert channel: a message with its thread, updated in place, and the thread's first reply with what the message leaves out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from slack_sdk.errors import SlackApiError
from slack_sdk.models.metadata import Metadata

from plumbline.alerts.channel import DETAILS, DETAILS_UPDATED, OPENED, UPDATED, AlertChannel, ChannelError, Delivered, Post
from plumbline.alerts.message import TEXT_LIMIT, Message
from plumbline.alerts.slack.connection import (
    CHANNEL_CLOSED,
    MESSAGE_GONE,
    MESSAGE_REJECTED,
    SLACK_ERRORS,
    affects_workspace,
    describe_error,
    error_code,
    iterate_messages,
)
from plumbline.alerts.slack.mrkdwn import escape, truncate
from plumbline.alerts.thread import Thread, complete_threads, record_of
from plumbline.archive import Archive, IncidentView

if TYPE_CHECKING:
    from slack_sdk import WebClient


_EVENT, _DIGEST_EVENT = "plumbline_finding", "plumbline_digest"
_UNSURE = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
"""Answers after which the message may have been posted all the same."""
_MARGIN = timedelta(minutes=5)
"""How far Slack's clock and ours may differ when a lost message is looked for."""


class SlackChannel(AlertChannel):
    def __init__(self, client: WebClient, channel: str, log: logging.Logger | None = None) -> None:
        self.client, self.channel, self._log = client, channel, log or logging.getLogger(__name__)

    def send(self, post: Post) -> str:
        content: dict[str, Any] = {
            "channel": self.channel,
            "text": truncate(escape(post.message.text), TEXT_LIMIT),
            "blocks": list(post.message.blocks),
            "metadata": _metadata(post),
        }
        try:
            if post.name in (UPDATED, DETAILS_UPDATED):
                self._update(post.message_id, content)
                return post.message_id
            if post.message_id:
                quiet = post.name == DETAILS or post.name.startswith("reminder")
                content |= {"thread_ts": post.message_id, "reply_broadcast": not quiet}
            return str(self.client.chat_postMessage(unfurl_links=False, **content)["ts"])
        except SLACK_ERRORS as error:
            raise channel_error(error) from error

    def _update(self, ts: str, content: dict[str, Any]) -> None:
        try:
            self.client.chat_update(ts=ts, **content)
        except SlackApiError as error:
            without = [block for block in content["blocks"] if "slack_file" not in block]
            if error_code(error) != "invalid_blocks" or len(without) == len(content["blocks"]):
                raise
            # A file that Slack still processes is no block yet; the chart is in the thread as well.
            self._log.warning("Slack refuses the chart in message %s (%s): it stays in the thread", ts, describe_error(error))
            self.client.chat_update(ts=ts, **content | {"blocks": without})

    def find(self, post: Post, since: datetime) -> Delivered | None:
        wanted = _metadata(post)
        try:
            for message in self._messages(post, since):
                meta = message.get("metadata") or {}
                payload = meta.get("event_payload", {})
                # The digest differs between versions of one message.
                same = {**payload, "shown": ""} == {**wanted["event_payload"], "shown": ""}
                if meta.get("event_type") == wanted["event_type"] and same:
                    return Delivered(str(message["ts"]), str(payload.get("shown", "")))
        except SLACK_ERRORS as error:
            if error_code(error) != "missing_scope":
                raise channel_error(error) from error
            self._log.warning("the bot lacks channels:history: %s %s may be posted a second time after a crash", post.kind, post.thread_key)
        return None

    def _messages(self, post: Post, since: datetime) -> Iterator[dict[str, Any]]:
        common: dict[str, Any] = {"channel": self.channel, "include_all_metadata": True}
        if post.message_id:
            return iterate_messages(self.client.conversations_replies, ts=post.message_id, **common)
        return iterate_messages(self.client.conversations_history, oldest=f"{(since - _MARGIN).timestamp():.6f}", **common)


def _metadata(post: Post) -> dict[str, Any]:
    if post.kind == "digest":
        return Metadata(event_type=_DIGEST_EVENT, event_payload={"month": post.thread_key}).to_dict()
    name = {UPDATED: OPENED, DETAILS_UPDATED: DETAILS}.get(post.name, post.name)
    payload = {"finding_id": post.thread_key, "post": name, "shown": post.message.digest}
    return Metadata(event_type=_EVENT, event_payload=payload).to_dict()


def channel_error(error: Exception) -> ChannelError:
    code = error_code(error)
    return ChannelError(
        describe_error(error),
        scope="message" if code in MESSAGE_REJECTED else "service" if affects_workspace(error) else "channel",
        refused=_refused(error),
        gone=code in MESSAGE_GONE,
        closed=code in CHANNEL_CLOSED,
    )


def _refused(error: Exception) -> bool:
    """Without a connection nothing was posted, nor after a proper answer that says so."""
    if isinstance(error, URLError):
        return True
    if not isinstance(error, SlackApiError):
        return False
    return error.response.status_code in (200, 429) and error_code(error) not in _UNSURE


def attach_details(
    threads: Iterable[IncidentView],
    details: Callable[[str], Message],
    notes: Archive,
    client: WebClient,
    log: logging.Logger | None = None,
) -> list[str]:
    """Post the details into each thread that has none, and update those that changed; the ids of these findings.

    The incident records under `details` when the post began, its id and what it shows, so a post that was not recorded is found again.
    """
    log = log or logging.getLogger(__name__)

    def send(view: IncidentView) -> bool:
        message = details(view.finding_id)
        if view.posts.get(DETAILS, {}).get("shown") == message.digest:
            return False
        thread = Thread(SlackChannel(client, view.channel, log), None, record_of(view), notes.save_incident, datetime.now(timezone.utc))
        thread.keep(DETAILS, message, DETAILS_UPDATED)
        thread.describe(DETAILS, shown=message.digest)
        return True

    return complete_threads(threads, "details", send, log)
