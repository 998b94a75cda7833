"""Delivery of findings: to the log, and to the channels of the first rule that fits."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from plumbline.alerts.channel import OPENED, AlertChannel, ChannelError, Channels
from plumbline.alerts.chart import chart_of
from plumbline.alerts.message import ESCALATED, JOINED, REMINDER, REOPENED, AlertContext, Message, render, reply
from plumbline.alerts.slack.connection import Slack, is_channel_id
from plumbline.alerts.thread import MOVED, POSTING, UNDELIVERED, Thread, record_of
from plumbline.archive import Archive, IncidentRecord, IncidentView
from plumbline.declarations import Alerts, QuietHours
from plumbline.results.finding import Finding, gravity
from plumbline.results.sample import Series


@dataclass(frozen=True)
class DeliveryTarget:
    """`channels`: Slack ids and names of declared channels. `owner`: a person's or group's Slack id. `rule`: its place, for the log."""

    channels: tuple[str, ...]
    owner: str | None = None
    quiet_hours: QuietHours | None = None
    rule: str = "no rule"

    def waits(self, finding: Finding, now: datetime) -> bool:
        """Whether the finding waits for the end of quiet hours."""
        return finding.severity != "page" and self.quiet_hours is not None and self.quiet_hours.quiet(now)


def route(finding: Finding, alerts: Alerts, channel: str) -> DeliveryTarget:
    """Where the finding goes. `channel`: the connection's own, the default."""
    names = {Series.parse(key).workload for key in finding.series if key} | ({finding.workload} if finding.workload else set())
    workloads = tuple(sorted(names))
    for i, route in enumerate(alerts.routes):
        if route.when is None or route.when.holds(finding.provider, workloads, finding.kind, finding.severity):
            return DeliveryTarget(alerts.resolve(route.channels) or (channel,), route.owner, route.quiet_hours, f"routes[{i}]")
    return DeliveryTarget((channel,))


# A message is updated in place when its finding changes. Events that need attention (higher severity, recurrence, reminder) are replies that
# mention the owner. Warnings wait for the end of quiet hours and of a snooze; a page never waits.
#
# An incident records each post (finding, channel, message id, state, digest of the message, replies):
#
#     posting      the first post began; whether it arrived is unknown. The next run asks the channel for it
#     undelivered  the channel refused it or was not reachable; the next run retries
#     moved        the channel accepts nothing more, or the rules name another channel for what was never delivered
#     otherwise    the finding's state as last shown
#
# A channel that is down, slow or revoked never raises: benchmarks do not depend on it.

_CLOSED = ("accepted", "resolved")
_NOTIFYING = (OPENED, ESCALATED, REOPENED, JOINED, REMINDER)
"""Posts that notify people; a chart does not."""


@dataclass(frozen=True)
class Alert:
    """A finding with its context. `earlier`: the id of the resolved finding that this one repeats. `members`: of a shared cause, the ids of the
    findings that it explains, whose thread it goes on with."""

    finding: Finding
    context: AlertContext = field(default_factory=AlertContext)
    earlier: str | None = None
    members: tuple[str, ...] = ()


@dataclass
class Delivery:
    """Finding ids by outcome. `joined`: causes that went on in the thread of a finding that they explain. `held`: by quiet hours or a snooze. `log_only`: without a channel, and findings that closed before they were
    posted."""

    posted: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    escalated: list[str] = field(default_factory=list)
    reopened: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    reminded: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    log_only: list[str] = field(default_factory=list)


def deliver(
    cases: Iterable[Alert],
    incidents: Archive,
    slack: Slack | None = None,
    alerts: Alerts | None = None,
    *,
    now: datetime | None = None,
    log: logging.Logger | None = None,
    announce: bool = True,
) -> Delivery:
    """Log every finding (unless `announce` is false) and deliver it to its channels: once each, updated in place when it changed.

    Takes all findings that are not closed, also delivered ones: failed deliveries are retried. The findings must be in the archive. Only one
    process at a time may do this (`Archive.alone`). Without `alerts` (unreadable declarations) Slack gets everything and other channels wait.
    """
    log = log or logging.getLogger(__name__)
    # Closed findings first: another finding may continue in their thread.
    cases = sorted(cases, key=lambda case: case.finding.state not in _CLOSED)
    rules = alerts or Alerts()
    run = _Run(Channels(slack, rules.channels, log), incidents, rules, alerts is not None, now or datetime.now(timezone.utc), log)
    for case in cases:
        if announce:
            level = logging.INFO if case.finding.severity == "info" else logging.WARNING
            log.log(level, "%s", render(case.finding, case.context).text)
        run.deliver(case)
    return run.done


@dataclass
class _Run:
    channels: Channels
    incidents: Archive
    alerts: Alerts
    declared: bool
    now: datetime
    log: logging.Logger
    done: Delivery = field(default_factory=Delivery)
    down: dict[str, ChannelError] = field(default_factory=dict)
    """Channels, and classes of channels, that refuse."""

    def deliver(self, case: Alert) -> None:
        finding = case.finding
        target = route(finding, self.alerts, self.channels.default)
        known = {i.channel: i for i in self.incidents.incidents(finding.finding_id) if i.state != MOVED}
        for channel, incident in list(known.items()):
            never = incident.state == UNDELIVERED and not incident.ts
            if never and finding.state not in _CLOSED and channel not in target.channels:
                self.log.info("finding %s goes to %s instead of %s", finding.finding_id, ", ".join(target.channels), channel)
                self.incidents.save_incident(replace(record_of(incident), state=MOVED))
                del known[channel]
        wanted = () if finding.state in _CLOSED else target.channels
        delivered = [self._deliver_to(channel, case, known.get(channel), target) for channel in dict.fromkeys((*known, *wanted))]
        if not any(delivered):
            self.done.log_only.append(finding.finding_id)

    def _deliver_to(self, name: str, case: Alert, incident: IncidentView | None, target: DeliveryTarget) -> bool:
        """Whether the channel exists."""
        try:
            channel = self.channels.get(name)
        except ChannelError as error:
            if incident is None:
                self.incidents.save_incident(IncidentRecord(case.finding.finding_id, name, "", UNDELIVERED, ""))
            self._failed(name, case.finding, error)
            return True
        if channel is not None:
            self._deliver_in(name, channel, case, incident, target)
        elif incident is not None and self.declared and not is_channel_id(name):
            self.log.warning("finding %s is given up in %s: alerts.yaml declares no such channel", case.finding.finding_id, name)
            self.incidents.save_incident(replace(record_of(incident), state=MOVED))
        return channel is not None

    def _deliver_in(self, name: str, channel: AlertChannel, case: Alert, incident: IncidentView | None, target: DeliveryTarget) -> None:
        finding = case.finding
        posted = incident is not None and (incident.ts or incident.state == POSTING)
        if not posted and (waits := self._waits(case, target)):
            self.log.info("finding %s is held: %s", finding.finding_id, waits)
            self.done.held.append(finding.finding_id)
            return
        if incident is not None and incident.ts and finding.state in _CLOSED and self._goes_on(incident):
            self.incidents.save_incident(replace(record_of(incident), state=finding.state))
            self.done.unchanged.append(finding.finding_id)
            return
        note = record_of(incident) if incident else self._new_note(case, name)
        thread = Thread(channel, finding, note, self.incidents.save_incident, self.now)
        posted_at = incident.posted_at if incident else self.now
        try:
            self._send(thread, case, target, posted_at)
        except ChannelError as error:
            if name not in target.channels and error.closed:
                self.log.warning("finding %s is given up in %s, which no rule names now: %s", finding.finding_id, name, error.code)
                self.incidents.save_incident(replace(thread.note, state=MOVED))
                return
            if not thread.note.message_hash or thread.note.message_hash != self._message(case, thread).digest:
                thread.undelivered()
            self._failed(name, finding, error)
            if error.scope != "message":
                self.down[type(channel).__name__ if error.scope == "service" else name] = error

    def _failed(self, name: str, finding: Finding, error: ChannelError) -> None:
        self.done.undelivered.append(finding.finding_id)
        self.log.error("finding %s is undelivered in %s until the next run: %s", finding.finding_id, name, error.code)

    def _send(self, thread: Thread, case: Alert, target: DeliveryTarget, posted_at: datetime) -> None:
        finding, message = case.finding, self._message(case, thread)
        current = bool(thread.note.ts) and thread.note.message_hash == message.digest and thread.note.state != UNDELIVERED
        if current and self._due_reply(thread.note, case, target, posted_at) is None:
            self.done.unchanged.append(finding.finding_id)
            return
        if error := self.down.get(type(thread.channel).__name__) or self.down.get(thread.note.channel):
            raise error  # without waiting for another timeout

        def answer() -> None:
            if (what := self._due_reply(thread.note, case, target, posted_at)) is not None:
                thread.reply(what, reply(what, finding, case.context))
                done = {ESCALATED: self.done.escalated, REOPENED: self.done.reopened, JOINED: self.done.joined}
                done.get(what, self.done.reminded).append(finding.finding_id)

        for done in thread.show(lambda: self._message(case, thread), answer):
            getattr(self.done, done).append(finding.finding_id)

    def _message(self, case: Alert, thread: Thread) -> Message:
        """With the chart as soon as Slack has it in this thread."""
        return render(case.finding, replace(case.context, chart=chart_of(thread.note.posts)))

    def _due_reply(self, note: IncidentRecord, case: Alert, target: DeliveryTarget, posted_at: datetime) -> str | None:
        """The reply that the thread lacks, if any."""
        finding = case.finding
        if finding.state in _CLOSED:
            return None
        if note.ts and not note.severity and case.earlier:  # an old thread without a post of this finding
            return None if self._waits(case, target) else REOPENED
        if finding.severity == "page" and note.severity not in ("", "page"):
            return ESCALATED
        if note.ts and not note.posts and case.members:  # the thread of a finding that it explains
            return None if self._waits(case, target) else JOINED
        notified = [datetime.fromisoformat(p["at"]) for what, p in note.posts.items() if p["ts"] and what.startswith(_NOTIFYING)]
        last = max(notified, default=posted_at)
        if (
            finding.state != "open"
            or finding.severity == "info"
            or self._waits(case, target)
            or self.now - last < timedelta(seconds=self.alerts.remind_every)
        ):
            return None
        return f"{REMINDER} {1 + sum(1 for what, post in note.posts.items() if what.startswith(REMINDER) and post['ts'])}"

    def _waits(self, case: Alert, target: DeliveryTarget) -> str | None:
        """Why the message waits; None if it does not."""
        until = case.context.snoozed_until
        if until is not None and until > self.now:
            return f"snoozed until {until:%Y-%m-%d %H:%M} UTC"
        return f"quiet hours of {target.rule}" if target.waits(case.finding, self.now) else None

    def _new_note(self, case: Alert, channel: str) -> IncidentRecord:
        """In the thread of the earlier finding in this channel, or in that of a finding that it explains, the most severe reported one:
        one page a cause. Without either it has no message yet."""
        new = IncidentRecord(case.finding.finding_id, channel, "", UNDELIVERED, "")
        earlier = self.incidents.incidents(case.earlier) if case.earlier else ()
        if old := next((i.ts for i in earlier if i.channel == channel and i.ts), ""):
            return replace(new, ts=old)
        threads = [
            i for name in case.members for i in self.incidents.incidents(name) if i.channel == channel and i.ts and i.state not in _CLOSED
        ]
        first = min(threads, key=lambda i: (gravity(i.severity), i.posted_at), default=None)
        return new if first is None else replace(new, ts=first.ts, severity=first.severity)

    def _goes_on(self, incident: IncidentView) -> bool:
        """Whether a recurrence of this finding continues the thread."""
        return any(
            i.ts == incident.ts
            and i.channel == incident.channel
            and i.finding_id != incident.finding_id
            and i.posted_at > incident.posted_at
            for i in self.incidents.incidents()
        )
