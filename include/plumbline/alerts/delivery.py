"""One Slack message per finding, once, whatever fails: retries, restarts, a crash between the post and the note of it.

Every finding also goes to the log. What was posted is noted as an incident (finding, channel, message id, state, digest of the message):

    posting      a post was begun; whether it arrived is not known. The next run looks for it in the channel by the message's metadata
    undelivered  Slack refused it or could not be reached; the next run tries again
    otherwise    the finding's state as last shown; a message whose digest changed is updated in place

Slack being down, slow, full or revoked never raises: a benchmark does not fail because of its messenger.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.client import HTTPException
from typing import Any, Protocol
from urllib.error import URLError

from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.models.metadata import Metadata

from plumbline.alerts.message import Message, render
from plumbline.alerts.slack import Slack
from plumbline.archive import IncidentRecord, IncidentView
from plumbline.drift import Finding

EVENT = "plumbline_finding"
POSTING, UNDELIVERED = "posting", "undelivered"
_OVER = ("accepted", "resolved")
_GONE = ("message_not_found", "edit_window_closed", "cant_update_message")
_ABOUT_THE_MESSAGE = (
    "invalid_blocks",
    "invalid_blocks_format",
    "msg_too_long",
    "no_text",
    "invalid_metadata_format",
    "msg_blocks_too_long",
)
_UNSURE = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
"""Answers after which some of the work may have been done all the same."""
_FAILURES = (SlackClientError, OSError, HTTPException)
_MARGIN_S = 300
"""How far Slack's clock and ours may differ when a lost message is looked for."""


class Incidents(Protocol):
    """What the archive offers: notes of what was said where."""

    def incidents(self, finding_id: str | None = None) -> Sequence[IncidentView]: ...

    def save_incident(self, incident: IncidentRecord) -> None: ...


@dataclass
class Delivery:
    """Finding ids by what became of them in Slack; `log_only` without Slack, and for findings that were over before they were ever posted."""

    posted: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    log_only: list[str] = field(default_factory=list)


def deliver(
    findings: Iterable[Finding],
    incidents: Incidents,
    slack: Slack | None = None,
    *,
    report: str | None = None,
    log: logging.Logger | None = None,
) -> Delivery:
    """Log every finding, and say it in Slack if there is one: once each, updated in place when it changed.

    Give all findings that are not settled yet, not only the new ones: what could not be delivered before is retried, and what
    was delivered is recognised. The findings must be in the archive already.
    """
    log = log or logging.getLogger(__name__)
    done = Delivery()
    down: Exception | None = None
    for finding in findings:
        message = render(finding, report)
        log.log(logging.INFO if finding.severity == "info" else logging.WARNING, "%s", message.text)
        if slack is None:
            done.log_only.append(finding.finding_id)
            continue
        incident = next((i for i in incidents.incidents(finding.finding_id) if i.channel == slack.channel), None)
        if incident is None and finding.state in _OVER:
            done.log_only.append(finding.finding_id)
            continue
        if incident is not None and incident.ts and incident.message_hash == message.digest and incident.state != UNDELIVERED:
            done.unchanged.append(finding.finding_id)
            continue
        post = _Post(slack, incidents, finding, message, incident, log)
        try:
            if down is not None:
                # What refused the message before refuses this one too: keep it for the next run instead of waiting for each.
                raise down
            (done.posted if post.send() else done.updated).append(finding.finding_id)
        except _FAILURES as error:
            post.keep()
            done.undelivered.append(finding.finding_id)
            log.error("finding %s is kept undelivered and retried by the next run: %s", finding.finding_id, _reason(error))
            down = None if _error_code(error) in _ABOUT_THE_MESSAGE else error
    if slack is None:
        log.info("Slack is not set up: %d finding(s) are in the log only", len(done.log_only))
    return done


@dataclass
class _Post:
    """One finding on its way to one channel."""

    slack: Slack
    incidents: Incidents
    finding: Finding
    message: Message
    incident: IncidentView | None
    log: logging.Logger

    def __post_init__(self) -> None:
        self.in_doubt = self.incident is not None and self.incident.state == POSTING
        """Whether a post may have arrived without being noted."""

    def send(self) -> bool:
        """Whether it was posted (True) or an earlier message was updated (False). Raises what Slack's client raises."""
        ts = self.incident.ts if self.incident else ""
        if self.in_doubt and self.incident is not None:
            ts = self._lost_message(self.incident.posted_at)
            self.in_doubt = False
        if ts:
            try:
                self._update(ts)
                return False
            except SlackApiError as error:
                if _error_code(error) not in _GONE:
                    raise
                self.log.warning("the message of finding %s is gone (%s): posting it anew", self.finding.finding_id, _error_code(error))
                self.incident = None
        self._note("", POSTING, "")
        self.in_doubt = True
        try:
            answer = self.slack.client.chat_postMessage(
                channel=self.slack.channel,
                text=self.message.text,
                blocks=list(self.message.blocks),
                metadata=self._metadata(),
                unfurl_links=False,
            )
        except _FAILURES as error:
            self.in_doubt = not _refused(error)
            raise
        self._note(str(answer["ts"]), self.finding.state, self.message.digest)
        return True

    def keep(self) -> None:
        """Note that the message is not (known to be) where it should be; an earlier message stays known."""
        state = POSTING if self.in_doubt else UNDELIVERED
        self._note(self.incident.ts if self.incident else "", state, self.incident.message_hash if self.incident else "")

    def _update(self, ts: str) -> None:
        self.slack.client.chat_update(
            channel=self.slack.channel, ts=ts, text=self.message.text, blocks=list(self.message.blocks), metadata=self._metadata()
        )
        self._note(ts, self.finding.state, self.message.digest)

    def _lost_message(self, begun: datetime) -> str:
        """The id of a message that was posted but never noted; empty if there is none."""
        begun = begun if begun.tzinfo else begun.replace(tzinfo=timezone.utc)
        try:
            cursor: str | None = None
            while True:
                page = self.slack.client.conversations_history(
                    channel=self.slack.channel,
                    oldest=f"{begun.timestamp() - _MARGIN_S:.6f}",
                    include_all_metadata=True,
                    limit=200,
                    cursor=cursor,
                )
                messages: list[dict[str, Any]] = page["messages"]
                for message in messages:
                    meta = message.get("metadata") or {}
                    if meta.get("event_type") == EVENT and meta.get("event_payload", {}).get("finding_id") == self.finding.finding_id:
                        return str(message["ts"])
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or None
                if cursor is None:
                    return ""
        except SlackApiError as error:
            if _error_code(error) != "missing_scope":
                raise
            self.log.warning(
                "the bot lacks channels:history: finding %s may be posted a second time after a crash", self.finding.finding_id
            )
            return ""

    def _metadata(self) -> dict[str, Any]:
        return Metadata(event_type=EVENT, event_payload={"finding_id": self.finding.finding_id}).to_dict()

    def _note(self, ts: str, state: str, message_hash: str) -> None:
        self.incidents.save_incident(IncidentRecord(self.finding.finding_id, self.slack.channel, ts, state, message_hash))


def _error_code(error: Exception) -> str:
    """Slack's own word for why it refused; empty when it gave none."""
    if not isinstance(error, SlackApiError):
        return ""
    data = error.response.data
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def _refused(error: Exception) -> bool:
    """Whether it is certain that nothing was posted: no connection at all, or a proper answer that says no."""
    if isinstance(error, URLError):
        return True
    if not isinstance(error, SlackApiError):
        return False
    return error.response.status_code in (200, 429) and _error_code(error) not in _UNSURE


def _reason(error: Exception) -> str:
    return _error_code(error) or f"{type(error).__name__}: {error}".splitlines()[0]
