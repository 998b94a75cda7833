"""Who is told of a finding: the first declared rule that fits it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Protocol

from slack_sdk.errors import SlackApiError

from plumbline.alerts.message import ESCALATED, REMINDER, REOPENED, AlertContext, render, reply
from plumbline.alerts.slack.connection import (
    CHANNEL_CLOSED,
    MESSAGE_GONE,
    MESSAGE_REJECTED,
    SLACK_ERRORS,
    Slack,
    affects_workspace,
    describe_error,
    error_code,
)
from plumbline.alerts.thread import MOVED, OPENED, POSTING, UNDELIVERED, Thread
from plumbline.archive import IncidentRecord, IncidentView
from plumbline.declarations import Alerts, QuietHours
from plumbline.results.finding import Finding
from plumbline.results.sample import Series


@dataclass(frozen=True)
class Target:
    """`channels` by id, `owner` to mention (a person's or a group's id), `quiet_hours` of the rule; `rule` in words for the log."""

    channels: tuple[str, ...]
    owner: str | None = None
    quiet_hours: QuietHours | None = None
    rule: str = "no rule"

    def waits(self, finding: Finding, now: datetime) -> bool:
        """Whether the finding is nothing that people are told of at this hour."""
        return finding.severity != "page" and self.quiet_hours is not None and self.quiet_hours.quiet(now)


def route(finding: Finding, alerts: Alerts, channel: str) -> Target:
    """Where the finding goes; `channel` is the connection's own, for rules that name none and for findings that no rule fits."""
    names = {Series.parse(key).workload for key in finding.series if key} | ({finding.workload} if finding.workload else set())
    workloads = tuple(sorted(names))
    for i, route in enumerate(alerts.routes):
        if route.when is None or route.when.holds(finding.provider, workloads, finding.kind, finding.severity):
            return Target(route.channels or (channel,), route.owner, route.quiet_hours, f"routes[{i}]")
    return Target((channel,))


# Every finding to the log, and in Slack one message with its thread in each channel that the rules name, whatever fails.
#
# A message is updated in place when its finding changed. What people must notice is a reply in its thread that mentions the owner: that it
# became a page, that it came back, that it still waits. A finding that comes back soon after it was resolved goes on in its old thread.
# Warnings wait for the end of quiet hours, and what is snoozed for the end of that; a page waits for nothing.
#
# What was posted is noted as an incident (finding, channel, message id, state, digest of the message, what was said):
#
#     posting      a first post was begun; whether it arrived is not known. The next run looks for it by the message's metadata
#     undelivered  Slack refused it or could not be reached; the next run tries again
#     moved        it could not be delivered there, or the channel takes nothing more, and the rules name another channel now
#     otherwise    the finding's state as last shown
#
# Slack being down, slow, full or revoked never raises: a benchmark does not fail because of its messenger.


_CLOSED = ("accepted", "resolved")
_NOTIFYING = (OPENED, ESCALATED, REOPENED, REMINDER)
"""Posts that people are notified of; a chart is none."""


class IncidentStore(Protocol):
    """What the archive offers: notes of what was said where."""

    def incidents(self, finding_id: str | None = None) -> Sequence[IncidentView]: ...

    def save_incident(self, incident: IncidentRecord) -> None: ...


@dataclass(frozen=True)
class Alert:
    """A finding with what is said beside it. `earlier`: the id of a resolved finding that this one is the return of."""

    finding: Finding
    context: AlertContext = field(default_factory=AlertContext)
    earlier: str | None = None


@dataclass
class Delivery:
    """Finding ids by what became of them in Slack; `held`: by quiet hours or a snooze; `log_only` without Slack, and for findings that were
    over before they were ever posted."""

    posted: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    escalated: list[str] = field(default_factory=list)
    reopened: list[str] = field(default_factory=list)
    reminded: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    log_only: list[str] = field(default_factory=list)


def deliver(
    cases: Iterable[Alert],
    incidents: IncidentStore,
    slack: Slack | None = None,
    alerts: Alerts | None = None,
    *,
    report: str | None = None,
    now: datetime | None = None,
    log: logging.Logger | None = None,
) -> Delivery:
    """Log every finding, and say it in Slack if there is one: once each, updated in place when it changed.

    Give all findings that are not settled yet, not only the new ones: what could not be delivered before is retried, and what
    was delivered is recognised. The findings must be in the archive already. Only one process at a time may do this (`Archive.alone`).
    """
    log = log or logging.getLogger(__name__)
    alerts = alerts or Alerts()
    # What is over first: its thread may be the one that another finding goes on in.
    cases = sorted(cases, key=lambda case: case.finding.state not in _CLOSED)
    if slack is None:
        for case in cases:
            _log(case, report, log)
        return Delivery(log_only=[case.finding.finding_id for case in cases])
    run = _Run(slack, incidents, alerts, report, now or datetime.now(timezone.utc), log)
    for case in cases:
        _log(case, report, log)
        run.tell(case)
    return run.done


def _log(case: Alert, report: str | None, log: logging.Logger) -> None:
    level = logging.INFO if case.finding.severity == "info" else logging.WARNING
    log.log(level, "%s", render(case.finding, report, case.context).text)


@dataclass
class _Run:
    """One round of telling."""

    slack: Slack
    incidents: IncidentStore
    alerts: Alerts
    report: str | None
    now: datetime
    log: logging.Logger
    done: Delivery = field(default_factory=Delivery)
    down: dict[str | None, Exception] = field(default_factory=dict)
    """Channels that refuse, with why; None: all of Slack."""

    def tell(self, case: Alert) -> None:
        """One finding, wherever it belongs."""
        finding = case.finding
        target = route(finding, self.alerts, self.slack.channel)
        known = {i.channel: i for i in self.incidents.incidents(finding.finding_id) if i.state != MOVED}
        for channel, incident in list(known.items()):
            never = incident.state == UNDELIVERED and not incident.ts  # what stands there is brought up to date there
            if never and finding.state not in _CLOSED and channel not in target.channels:
                self.log.info("finding %s is told in %s instead of %s", finding.finding_id, ", ".join(target.channels), channel)
                self.incidents.save_incident(replace(_record(incident), state=MOVED))
                del known[channel]
        wanted = () if finding.state in _CLOSED else target.channels
        if not known and not wanted:
            self.done.log_only.append(finding.finding_id)
        for channel in dict.fromkeys((*known, *wanted)):
            self._tell_in(channel, case, known.get(channel), target)

    def _tell_in(self, channel: str, case: Alert, incident: IncidentView | None, target: Target) -> None:
        finding = case.finding
        told = incident is not None and (incident.ts or incident.state == POSTING)
        if not told and (waits := self._waits(case, target)):
            self.log.info("finding %s is held: %s", finding.finding_id, waits)
            self.done.held.append(finding.finding_id)
            return
        if incident is not None and incident.ts and finding.state in _CLOSED and self._goes_on(incident):
            self.incidents.save_incident(replace(_record(incident), state=finding.state))
            self.done.unchanged.append(finding.finding_id)
            return
        note = (
            _record(incident) if incident else IncidentRecord(finding.finding_id, channel, self._old_thread(case, channel), UNDELIVERED, "")
        )
        thread = Thread(self.slack.client, finding, note, self.incidents.save_incident, self.now, self.log)
        posted_at = incident.posted_at if incident else self.now
        try:
            self._say(thread, case, target, posted_at)
        except SLACK_ERRORS as error:
            if channel not in target.channels and error_code(error) in CHANNEL_CLOSED:
                self.log.warning(
                    "finding %s is given up in %s, where the rules send it no longer: %s",
                    finding.finding_id,
                    channel,
                    describe_error(error),
                )
                self.incidents.save_incident(replace(thread.note, state=MOVED))
                return
            if not thread.note.message_hash or thread.note.message_hash != render(finding, self.report, case.context).digest:
                thread.undelivered()
            self.done.undelivered.append(finding.finding_id)
            self.log.error(
                "finding %s is kept undelivered in %s and retried by the next run: %s", finding.finding_id, channel, describe_error(error)
            )
            if error_code(error) not in MESSAGE_REJECTED:
                self.down[None if affects_workspace(error) else channel] = error

    def _say(self, thread: Thread, case: Alert, target: Target, posted_at: datetime) -> None:
        finding, message = case.finding, render(case.finding, self.report, case.context)
        stands = bool(thread.note.ts) and thread.note.message_hash == message.digest and thread.note.state != UNDELIVERED
        if stands and self._due(thread.note, case, target, posted_at) is None:
            self.done.unchanged.append(finding.finding_id)
            return
        if error := self.down.get(None) or self.down.get(thread.note.channel):
            # What refused the message before refuses this one too: keep it for the next run instead of waiting for each.
            raise error
        try:
            if not thread.note.ts:
                thread.open(message)
                self.done.posted.append(finding.finding_id)
            if thread.note.message_hash != message.digest or thread.note.state == UNDELIVERED:
                thread.update(message)
                self.done.updated.append(finding.finding_id)
            what = self._due(thread.note, case, target, posted_at)
            if what is not None:
                thread.reply(what, reply(what, finding, case.context))
                {ESCALATED: self.done.escalated, REOPENED: self.done.reopened}.get(what, self.done.reminded).append(finding.finding_id)
        except SlackApiError as error:
            if error_code(error) not in MESSAGE_GONE or not thread.note.ts:
                raise
            self.log.warning("the message of finding %s is gone (%s): posting it anew", finding.finding_id, error_code(error))
            thread.begin_anew()
            thread.open(message)
            self.done.posted.append(finding.finding_id)

    def _due(self, note: IncidentRecord, case: Alert, target: Target, posted_at: datetime) -> str | None:
        """The reply that the thread lacks, if any."""
        finding = case.finding
        if finding.state in _CLOSED:
            return None
        if note.ts and not note.severity and case.earlier:  # an old thread in which nothing was said of this finding yet
            return None if self._waits(case, target) else REOPENED
        if finding.severity == "page" and note.severity not in ("", "page"):
            return ESCALATED
        told = [datetime.fromisoformat(p["at"]) for what, p in note.said.items() if p["ts"] and what.startswith(_NOTIFYING)]
        last = max(told, default=posted_at)
        # An info asks nothing of anybody.
        if (
            finding.state != "open"
            or finding.severity == "info"
            or self._waits(case, target)
            or self.now - last < timedelta(seconds=self.alerts.remind_every)
        ):
            return None
        return f"{REMINDER} {1 + sum(1 for what, post in note.said.items() if what.startswith(REMINDER) and post['ts'])}"

    def _waits(self, case: Alert, target: Target) -> str | None:
        """Why nobody is to hear of it now; None if somebody is."""
        until = case.context.snoozed_until
        if until is not None and until > self.now:
            return f"snoozed until {until:%Y-%m-%d %H:%M} UTC"
        return f"quiet hours of {target.rule}" if target.waits(case.finding, self.now) else None

    def _old_thread(self, case: Alert, channel: str) -> str:
        """The message of the finding that this one is the return of, in this channel; empty if there is none."""
        earlier = self.incidents.incidents(case.earlier) if case.earlier else ()
        return next((i.ts for i in earlier if i.channel == channel), "")

    def _goes_on(self, incident: IncidentView) -> bool:
        """Whether another finding, the return of this one, has taken the thread over."""
        return any(
            i.ts == incident.ts
            and i.channel == incident.channel
            and i.finding_id != incident.finding_id
            and i.posted_at > incident.posted_at
            for i in self.incidents.incidents()
        )


def _record(view: IncidentView) -> IncidentRecord:
    return IncidentRecord(**{name: getattr(view, name) for name in IncidentRecord.__dataclass_fields__})
