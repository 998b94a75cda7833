"""Send findings to the log and to their channels: context, chart, reminders and the monthly digest."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from plumbline.alerts import Alert, AlertContext, Delivery, connect, deliver, render
from plumbline.alerts.channel import ChannelError, Channels
from plumbline.alerts.chart import attach, picture
from plumbline.alerts.delivery import route
from plumbline.alerts.digest import Digest, post_digest, render_digest
from plumbline.alerts.message import finding_links, render_details
from plumbline.alerts.slack.connection import Slack, is_channel_id
from plumbline.alerts.slack_channel import attach_details
from plumbline.alerts.thread import MOVED, is_recurrence
from plumbline.answers.compared_series import compared_series
from plumbline.answers.costed_findings import costed_findings
from plumbline.answers.ledger import Ledger, open_ledger
from plumbline.answers.monthly_costs import SETTLED, monthly_cost_of
from plumbline.answers.promises import checkable
from plumbline.answers.trial_credits import trial_credits
from plumbline.archive import open_archive
from plumbline.declarations import Alerts, DeclarationError, Declarations, load_in_force
from plumbline.declarations.installation import airflow_url
from plumbline.findings.decision_change import decision_impact
from plumbline.findings.monthly_cost import MonthlyCost
from plumbline.findings.types.installation import InstallationFailure
from plumbline.metrics.time_spans import month_span
from plumbline.presentation.events.stream import read_stream
from plumbline.presentation.metric_history import finding_history
from plumbline.results.finding import OPEN_STATES, UNREADABLE_ERRORS, Finding
from plumbline.results.stored import read_finding
from plumbline.workflows.baseline_decision import undecided_findings
from plumbline.workflows.causes import unsettled_witnesses
from plumbline.workflows.check_installation import reconcile_failures
from plumbline.workflows.operations_log import report_breaches

if TYPE_CHECKING:
    from plumbline.alerts.chart import Picture
    from plumbline.archive import Archive, FindingView, IncidentView

_log = logging.getLogger(__name__)


def alert_of(
    archive: Archive,
    declared: Declarations | None,
    view: FindingView,
    now: datetime | None = None,
    ledger: Ledger | None = None,
    led: Mapping[str, str] | None = None,
) -> Alert:
    """The finding with its alert context; without declarations it has no cost and no owner. `ledger`: of every open finding, read if left out;
    `led`: finding → that of its cause."""
    alerts = declared.alerts if declared else Alerts()
    finding = Finding.of(view.detail).with_state(view.state)
    before = _recurring(archive, alerts, finding, view)
    address = alerts.airflow_url or airflow_url()
    snoozed = view.snoozed_until is not None and view.snoozed_until > (now or datetime.now(timezone.utc))
    cost = monthly_cost_of(archive, declared, view) if declared else MonthlyCost(None, "")
    if ledger is None:
        ledger = open_ledger(archive, declared) if declared else Ledger()
    context = AlertContext(
        owner=route(finding, alerts, "").owner,
        cost=cost.text,
        usd=ledger.headline_usd(view.finding_id, cost.usd),
        credit=cost.credit,
        claim=cost.claim,
        choice=decision_impact(archive, finding, view.opened_at),
        links=finding_links(finding, address, _trial(archive, finding), asked=bool(undecided_findings([finding]))) if address else (),
        snoozed_until=view.snoozed_until if snoozed else None,
        came_back=f"resolved on {before.updated_at:%Y-%m-%d}, was finding {before.finding_id}" if before else "",
    )
    return Alert(
        finding,
        context,
        before.finding_id if before else None,
        tuple(sorted(n for n, lead in (led or {}).items() if lead == view.finding_id)),
    )


def _recurring(archive: Archive, alerts: Alerts, finding: Finding, view: FindingView) -> FindingView | None:
    """The recently resolved finding that recurs as this one."""
    within = timedelta(seconds=alerts.reopen_within)
    resolved = [
        other
        for other in archive.findings_of(finding.provider, finding.kind)
        if other.state == "resolved" and timedelta(0) <= view.opened_at - other.updated_at <= within
    ]
    resolved.sort(key=lambda other: other.updated_at)
    for other in reversed(resolved):
        if (before := read_finding(other)) is not None and is_recurrence(finding, before):
            return other
    return None


def _trial(archive: Archive, finding: Finding) -> str | None:
    """A trial of the leading series in the newest campaign that shows the finding, a usable one if possible."""
    if not finding.campaigns or not finding.series_key:
        return None
    trials = archive.trials(campaign_id=finding.campaigns[-1], series_key=finding.series_key)
    return next((t.trial_id for t in [*(t for t in trials if t.usable), *trials]), None)


def finding_chart(archive: Archive, finding: Finding) -> Picture | None:
    """None for kinds without a curve, such as facts, and with too little data."""
    try:
        history = finding_history(archive, finding)
    except (LookupError, TypeError, ValueError):  # one chart must not block the others
        _log.exception("the chart of finding %s cannot be drawn", finding.finding_id)
        return None
    return None if history is None else picture(history, f"plumbline-{finding.finding_id}.png")


LOCK, PATIENCE_S = "alerts", 600.0


def send_alerts(log: logging.Logger | None = None) -> dict[str, list[str]]:
    """Send every open finding, and the end of those that were sent before: to the log, and to their channels.

    Idempotent: messages that exist are updated, failed ones retried, due ones (reminders, the end of quiet hours) sent. Returns finding ids by
    outcome. One process sends at a time; another one skips after waiting ten minutes.
    """
    log = log or _log
    slack = connect()
    with open_archive() as archive, archive.alone(LOCK, PATIENCE_S) as had:
        if not had:
            log.warning("alert lock held for 10 minutes; skipping until the next run")
            return asdict(Delivery())
        declared = _declared(log)
        now = datetime.now(timezone.utc)
        if declared is not None:  # what is open in the operations log becomes late by itself, and checks go on
            checked = {name for name, p in declared.providers.items() if checkable(p.sla) and (p.watch.uptime or p.watch.capacity)}
            for name in sorted(({entry.provider for entry in archive.operations()} | checked) & declared.providers.keys()):
                report_breaches(archive, declared, name, "alerts")
        cases, unreadable = _cases(archive, declared, now)
        for failure in unreadable:
            log.error("%s: %s", failure.title, failure.cause)
        if reconcile_failures(archive, unreadable, ("finding_unreadable",), now):
            cases, _ = _cases(archive, declared, now)
        done = deliver(cases, archive, slack, declared.alerts if declared else None, now=now, log=log)
        if slack is not None:
            _complete_threads(archive, slack, cases, declared, now)
        return asdict(done)


def _complete_threads(archive: Archive, slack: Slack, cases: Sequence[Alert], declared: Declarations | None, now: datetime) -> None:
    """Post details and charts into Slack threads, then show new charts in the messages."""
    known = {case.finding.finding_id: case for case in cases}

    def threads() -> list[IncidentView]:  # read each time: what was attached is noted in them
        return [t for t in archive.incidents() if t.finding_id in known and t.state != MOVED and is_channel_id(t.channel)]

    attach_details(threads(), lambda name: render_details(known[name].finding, known[name].context), archive, slack.client)
    if charted := attach(threads(), lambda name: finding_chart(archive, known[name].finding), archive, slack.client):
        with_charts = [known[name] for name in dict.fromkeys(charted)]
        deliver(with_charts, archive, slack, declared.alerts if declared else None, now=now, announce=False)


def _cases(archive: Archive, declared: Declarations | None, now: datetime) -> tuple[list[Alert], list[InstallationFailure]]:
    """The alerts; a finding that cannot be read becomes a failure of the installation and blocks no other."""
    cases, unreadable = [], []
    ledger, led = open_ledger(archive, declared) if declared else Ledger(), unsettled_witnesses(archive)
    for view in _findings_to_send(archive, led):
        try:
            case = alert_of(archive, declared, view, now, ledger, led)
            render(case.finding, case.context)
        except UNREADABLE_ERRORS as error:
            unreadable.append(
                InstallationFailure(
                    code="finding_unreadable",
                    what=view.finding_id,
                    occurrence=view.finding_id,
                    since=view.opened_at,
                    severity="warn",
                    title=f"finding {view.finding_id} of {view.provider} cannot be read and is not sent",
                    cause=f"{type(error).__name__}: {error}; its headline: {view.headline}",
                    remedy="If a newer plumbline wrote it, install that version here. Otherwise resolve it: "
                    f"plumbline findings resolve {view.finding_id} --why …",
                )
            )
        else:
            cases.append(case)
    return cases, unreadable


def _declared(log: logging.Logger) -> Declarations | None:
    """None if the declarations cannot be read: a mistake in one file must not block alerts."""
    try:
        return load_in_force()
    except DeclarationError as error:
        log.error("the declarations cannot be read: findings go to the connection's channel, without routing and cost\n%s", error)
        return None


def _findings_to_send(archive: Archive, covered: Collection[str]) -> list[FindingView]:
    """`covered`: findings that the message of their cause covers."""
    wanted = {f.finding_id: f for f in archive.findings(OPEN_STATES)}
    for incident in archive.incidents():
        if incident.state not in (*SETTLED, MOVED) and incident.finding_id not in wanted:
            wanted[incident.finding_id] = archive.finding(incident.finding_id)
    return [view for name, view in wanted.items() if name not in covered]


def previous_month(moment: datetime) -> str:
    """The month that ended last, such as `2026-10` on any day of November 2026 (UTC)."""
    return f"{moment.astimezone(timezone.utc).replace(day=1) - timedelta(days=1):%Y-%m}"


def build_digest(archive: Archive, declared: Declarations, month: str, now: datetime, *, simulated: bool = False) -> Digest:
    """The digest of a month (`2026-11`) as of `now`, of measured findings or of simulated ones. ValueError for another format."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise ValueError(f'month "{month}": expected YYYY-MM, such as 2026-11')
    covered = unsettled_witnesses(archive)
    views = [f for f in archive.findings() if f.state not in SETTLED or month in (f"{f.opened_at:%Y-%m}", f"{f.updated_at:%Y-%m}")]
    entries = tuple(costed_findings(archive, declared, views).values())
    begin, end = month_span(datetime.fromisoformat(f"{month}-01T00:00:00+00:00"))
    stream = read_stream(archive, declared, begin, min(end, max(now, begin)))
    credits = trial_credits(archive, declared, (e.finding for e in sorted(entries, key=lambda e: (e.opened, e.finding.finding_id))))
    return Digest(
        month, now.date(), entries, simulated, compared_series(archive), frozenset(covered), stream.events, stream.looked, credits
    )


def send_digest(month: str | None = None) -> str:
    """Send the digest of the month (default: the last complete one) to the log and to its channels; the outcome: `posted`, `updated`,
    `unchanged` or `log_only`, of several channels joined by commas.

    ChannelError if a channel does not take it; the other channels get it all the same. Idempotent.
    """
    now = datetime.now(timezone.utc)
    month = month or previous_month(now)
    with open_archive() as archive:
        declared = load_in_force()
        message = render_digest(build_digest(archive, declared, month, now))
        _log.info("%s", message.text)
        slack = connect()
        channels = Channels(slack, declared.alerts.channels, _log)
        outcomes: list[str] = []
        failures: list[ChannelError] = []
        for name in declared.alerts.resolve(declared.alerts.digest) or (channels.default,):
            try:
                channel = channels.get(name)
                outcomes.append("log_only" if channel is None else post_digest(month, message, archive, name, channel))
            except ChannelError as error:
                _log.error("the digest of %s is undelivered in %s: %s", month, name, error.code)
                failures.append(error)
        if failures:
            raise failures[0]
        return ", ".join(outcomes)
