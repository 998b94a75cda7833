"""One finding in one channel: a message and its replies, each posted exactly once, also after a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from slack_sdk.errors import SlackApiError
from slack_sdk.models.metadata import Metadata

from plumbline.alerts.message import TEXT_LIMIT, Message
from plumbline.alerts.slack.connection import SLACK_ERRORS, error_code, iterate_messages
from plumbline.alerts.slack.mrkdwn import escape, truncate
from plumbline.archive import IncidentRecord
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from slack_sdk import WebClient


EVENT, OPENED = "plumbline_finding", "opened"
POSTING, UNDELIVERED, MOVED = "posting", "undelivered", "moved"
_UNSURE = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
"""Answers after which some of the work may have been done all the same."""
_MARGIN = timedelta(minutes=5)
"""How far Slack's clock and ours may differ when a lost message is looked for."""


@dataclass
class Thread:
    """`note` is what the archive knows of the thread; each method leaves it, and the archive, as Slack was last known to be.

    Methods raise what Slack's client raises (`refusal.FAILURES`).
    """

    client: WebClient
    finding: Finding
    note: IncidentRecord
    save: Callable[[IncidentRecord], None]
    now: datetime
    log: logging.Logger

    @property
    def in_doubt(self) -> bool:
        """Whether a first message may have arrived without being noted."""
        return not self.note.ts and self.note.state == POSTING

    def open(self, message: Message) -> None:
        """Post the first message."""
        ts, shown = self._once(OPENED, message)
        self._keep(ts=ts, state=self.finding.state, message_hash=shown, severity=self._told(OPENED))

    def reply(self, what: str, message: Message) -> None:
        """Post a reply that the channel sees too, unless it is a reminder."""
        self._once(what, message, thread_ts=self.note.ts, reply_broadcast=not what.startswith("reminder"))
        self._keep(severity=self._told(what))

    def update(self, message: Message) -> None:
        """Bring the first message up to date, where it stands. Again, it changes nothing."""
        self.client.chat_update(
            channel=self.note.channel,
            ts=self.note.ts,
            text=truncate(escape(message.text), TEXT_LIMIT),
            blocks=list(message.blocks),
            metadata=self._metadata(OPENED, message),
        )
        self._keep(state=self.finding.state, message_hash=message.digest)

    def undelivered(self) -> None:
        """Note that the first message is not (known to be) as it should be."""
        if not self.in_doubt:
            self._keep(state=UNDELIVERED)

    def begin_anew(self) -> None:
        """Forget a message that is gone."""
        self.note = replace(self.note, ts="", state=UNDELIVERED, message_hash="", said={})

    def _once(self, what: str, message: Message, **where: Any) -> tuple[str, str]:
        """The post's id and the digest of what it shows: of a lost one that was found, else of a new one."""
        begun = self.note.said.get(what)
        if (begun is not None and not begun["ts"]) or (what == OPENED and self.in_doubt):
            lost = self._lost(what, datetime.fromisoformat(begun["at"]) if begun else self.now - timedelta(days=30))
            if lost is not None:
                self._say(what, {**(begun or self._beginning()), "ts": lost[0]})
                return lost
        self._say(what, self._beginning(), **({"ts": "", "state": POSTING} if what == OPENED else {}))
        try:
            answer = self.client.chat_postMessage(
                channel=self.note.channel,
                text=truncate(escape(message.text), TEXT_LIMIT),
                blocks=list(message.blocks),
                metadata=self._metadata(what, message),
                unfurl_links=False,
                **where,
            )
        except SLACK_ERRORS as error:
            if _refused(error):
                said = {name: post for name, post in self.note.said.items() if name != what}
                self._keep(said=said, **({"state": UNDELIVERED} if what == OPENED else {}))
            raise
        self._say(what, {**self.note.said[what], "ts": str(answer["ts"])})
        return str(answer["ts"]), message.digest

    def _beginning(self) -> dict[str, Any]:
        return {"at": self.now.isoformat(), "ts": "", "severity": self.finding.severity}

    def _told(self, what: str) -> str:
        """The gravest severity that people were told of, after this post."""
        return max(self.note.severity, str(self.note.said[what]["severity"]), key=("", "info", "warn", "page").index)

    def _say(self, what: str, post: Mapping[str, Any], **values: Any) -> None:
        known = {"ts": post["ts"]} if what == OPENED and post["ts"] else {}
        self._keep(said={**self.note.said, what: dict(post)}, **{**values, **known})

    def _keep(self, **values: Any) -> None:
        self.note = replace(self.note, **values)
        self.save(self.note)

    def _metadata(self, what: str, message: Message) -> dict[str, Any]:
        payload = {"finding_id": self.finding.finding_id, "post": what, "shown": message.digest}
        return Metadata(event_type=EVENT, event_payload=payload).to_dict()

    def _lost(self, what: str, begun: datetime) -> tuple[str, str] | None:
        """The id of a post that was made but never noted, and the digest of what it shows; None if there is none."""
        try:
            for message in self._messages(what, begun):
                meta = message.get("metadata") or {}
                payload = meta.get("event_payload", {})
                # A message of before posts had names is a first one.
                if (
                    meta.get("event_type") == EVENT
                    and payload.get("finding_id") == self.finding.finding_id
                    and payload.get("post", OPENED) == what
                ):
                    return str(message["ts"]), str(payload.get("shown", ""))
        except SlackApiError as error:
            if error_code(error) != "missing_scope":
                raise
            self.log.warning(
                "the bot lacks channels:history: finding %s may be posted a second time after a crash", self.finding.finding_id
            )
        return None

    def _messages(self, what: str, begun: datetime) -> Iterator[dict[str, Any]]:
        common: dict[str, Any] = {"channel": self.note.channel, "include_all_metadata": True}
        if what == OPENED:
            return iterate_messages(self.client.conversations_history, oldest=f"{(begun - _MARGIN).timestamp():.6f}", **common)
        return iterate_messages(self.client.conversations_replies, ts=self.note.ts, **common)


def _refused(error: Exception) -> bool:
    """Whether it is certain that nothing was posted: no connection at all, or a proper answer that says no."""
    if isinstance(error, URLError):
        return True
    if not isinstance(error, SlackApiError):
        return False
    return error.response.status_code in (200, 429) and error_code(error) not in _UNSURE


def is_recurrence(now: Finding, before: Finding) -> bool:
    """Whether `now` says of the same provider and at least one of the same series (or facts) what `before` said until it was resolved."""
    if (now.provider, now.kind, now.subject) != (before.provider, before.kind, before.subject) or now.finding_id == before.finding_id:
        return False
    if now.kind == "environment":
        return bool({m.name for m in now.members} & {m.name for m in before.members})
    shared = set(now.series) & set(before.series)
    if not now.series or not before.series:  # the provider as a whole has it
        return True
    return any(now.direction_of(key) == before.direction_of(key) for key in shared)
