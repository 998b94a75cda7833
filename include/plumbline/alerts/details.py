"""The first reply in a finding's Slack thread: what its message leaves out, posted once and updated in place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from plumbline.alerts.channel import DETAILS, DETAILS_UPDATED, ChannelError, Post
from plumbline.alerts.message import Message
from plumbline.alerts.slack_channel import SlackChannel
from plumbline.archive import IncidentRecord, IncidentView

if TYPE_CHECKING:
    from slack_sdk import WebClient


class IncidentWriter(Protocol):
    """The part of the archive that records what was posted where."""

    def save_incident(self, incident: IncidentRecord) -> None: ...


def attach_details(
    threads: Iterable[IncidentView],
    details: Callable[[str], Message],
    notes: IncidentWriter,
    client: WebClient,
    log: logging.Logger | None = None,
) -> list[str]:
    """Post the details into each thread that has none, and update those that changed; the ids of these findings.

    The incident records under `details` when the post began, its id and what it shows, so a post that was not recorded is found again.
    A Slack that refuses raises nothing: the next run retries.
    """
    log = log or logging.getLogger(__name__)
    done = []
    for thread in threads:
        message = details(thread.finding_id)
        known: Mapping[str, Any] = thread.said.get(DETAILS, {})
        if not thread.ts or known.get("shown") == message.digest:
            continue
        channel = SlackChannel(client, thread.channel, log)
        post = Post("finding", thread.finding_id, DETAILS, message, thread.ts)
        at = str(known.get("at") or datetime.now(timezone.utc).isoformat())
        try:
            sent = str(known.get("ts") or "")
            if known and not sent and (lost := channel.find(post, datetime.fromisoformat(at))) is not None:
                sent = lost.message_id
            if sent:
                channel.send(replace(post, name=DETAILS_UPDATED, message_id=sent))
            else:
                thread = _note(notes, thread, {"at": at, "ts": "", "shown": ""})
                sent = channel.send(post)
            _note(notes, thread, {"at": at, "ts": sent, "shown": message.digest})
            done.append(thread.finding_id)
        except ChannelError as error:
            log.warning("the details of finding %s are retried by the next run: %s", thread.finding_id, error.code)
            if error.scope == "service":
                break
    return done


def _note(notes: IncidentWriter, thread: IncidentView, details: dict[str, str]) -> IncidentView:
    said = {**thread.said, DETAILS: details}
    known = {name: getattr(thread, name) for name in IncidentRecord.__dataclass_fields__}
    notes.save_incident(replace(IncidentRecord(**known), said=said))
    return replace(thread, said=said)
