"""A message that belongs to no finding, posted once: the archive's audit log keeps where it stands.

digest_begun   a post was begun; whether it arrived is not known. The next run looks for it in the channel by the message's metadata
digest_sent    the message's id and what it says; one that says something else by now is updated in place
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, Protocol

from slack_sdk.errors import SlackApiError
from slack_sdk.models.metadata import Metadata

from plumbline.alerts.message import Message
from plumbline.alerts.paging import messages
from plumbline.alerts.refusal import GONE, error_code
from plumbline.alerts.slack import Slack
from plumbline.archive import AuditView

EVENT = "plumbline_digest"
_BEGUN, _SENT, _BY = "digest_begun", "digest_sent", "digest"
_MARGIN_S = 300

Posted = Literal["posted", "updated", "unchanged"]


class Log(Protocol):
    """What the archive offers: the log of who did what."""

    def audit(self, subject: str | None = None) -> Sequence[AuditView]: ...

    def add_audit(self, *, who: str, what: str, subject: str, why: str, detail: Mapping[str, Any] | None = None) -> None: ...


def post_digest(month: str, message: Message, kept: Log, slack: Slack, log: logging.Logger | None = None) -> Posted:
    """Post the month's digest to the connection's channel, or bring the one that stands there up to date.

    Raises what Slack's client raises; to call it again is always safe.
    """
    log = log or logging.getLogger(__name__)
    subject = f"digest/{month}/{slack.channel}"
    entries = kept.audit(subject)
    last = entries[-1] if entries else None
    ts = str(last.detail["ts"]) if last is not None and last.what == _SENT else ""
    if last is not None and last.what == _BEGUN:
        ts = _lost(month, slack, last.at, log)
    if ts and last is not None and last.what == _SENT and last.detail["digest"] == message.digest:
        return "unchanged"
    said: dict[str, Any] = {"text": message.text, "blocks": list(message.blocks), "metadata": _metadata(month)}

    def note(what: str, ts: str) -> None:
        kept.add_audit(who=_BY, what=what, subject=subject, why=f"digest of {month}", detail={"ts": ts, "digest": message.digest})

    if ts:
        try:
            slack.client.chat_update(channel=slack.channel, ts=ts, **said)
            note(_SENT, ts)
            return "updated"
        except SlackApiError as error:
            if error_code(error) not in GONE:
                raise
            log.warning("the digest of %s is gone (%s): posting it anew", month, error_code(error))
    note(_BEGUN, "")
    answer = slack.client.chat_postMessage(channel=slack.channel, unfurl_links=False, **said)
    note(_SENT, str(answer["ts"]))
    return "posted"


def _metadata(month: str) -> dict[str, Any]:
    return Metadata(event_type=EVENT, event_payload={"month": month}).to_dict()


def _lost(month: str, slack: Slack, begun: datetime, log: logging.Logger) -> str:
    """The id of a digest that was posted but never noted; empty if there is none, or if the bot may not look."""
    begun = begun if begun.tzinfo else begun.replace(tzinfo=timezone.utc)
    since = f"{begun.timestamp() - _MARGIN_S:.6f}"
    try:
        said = messages(slack.client.conversations_history, channel=slack.channel, oldest=since, include_all_metadata=True)
        return next((str(m["ts"]) for m in said if m.get("metadata") == _metadata(month)), "")
    except SlackApiError as error:
        if error_code(error) != "missing_scope":
            raise
        log.warning("the bot lacks channels:history: the digest of %s may be posted a second time after a crash", month)
        return ""
