"""Everything that the page of one finding says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from plumbline.alerts.money import MonthlyCost, monthly_cost
from plumbline.archive import Archive, AuditView, FindingView, TrialView
from plumbline.dashboard.finding_chart import finding_chart
from plumbline.declarations import Declarations
from plumbline.drift import Finding
from plumbline.drift.environment import Change, diff
from plumbline.drift.winner import WINNER, is_winner
from plumbline.reports.chart import Chart
from plumbline.reports.choices import changed_since
from plumbline.reports.figures import words
from plumbline.reports.finding_history import history_of
from plumbline.reports.priced import at_accepted_prices

SETTLED = ("accepted", "resolved")
SHOWN_TRIALS = 24


@dataclass(frozen=True)
class MemberRow:
    """One metric, or one fact, that moved. `change` with its interval, as fractions of the baseline."""

    name: str
    text: str
    change: str
    verdict: str
    series: str


@dataclass(frozen=True)
class Thread:
    """Where it is talked about. `link` opens the thread in whichever workspace of Slack the reader is signed in to; empty before a message arrived."""

    channel: str
    said: tuple[tuple[str, str], ...]
    link: str


@dataclass(frozen=True)
class FindingPage:
    """`told`: the finding in full, None of one that an older version stored. `changes`: what differs between the baseline's environment and
    the campaign's. `commands`: (what for, command). `audit`: who did what to it. `choice`: what teams' first choices did since, in words. `decision`: (team,
    kind, workload) of a first choice that changed, which is what the finding is about."""

    view: FindingView
    told: Finding | None
    chart: Chart | None
    members: tuple[MemberRow, ...]
    changes: tuple[Change, ...]
    cost: str
    choice: str
    trials: tuple[TrialView, ...]
    threads: tuple[Thread, ...]
    commands: tuple[tuple[str, str], ...]
    audit: tuple[AuditView, ...]
    decision: tuple[str, str, str] | None

    @property
    def headline(self) -> str:
        return self.view.headline.removeprefix(self.view.severity.upper()).strip()


def finding_page(archive: Archive, declared: Declarations, finding_id: str, now: datetime) -> FindingPage:
    """LookupError for an unknown id."""
    view = archive.finding(finding_id)
    told = _told(view)
    history = history_of(archive, told) if told is not None else None
    return FindingPage(
        view=view,
        told=told,
        chart=finding_chart(history) if history is not None else None,
        members=tuple(_members(told)) if told is not None else (),
        changes=_changes(archive, told, declared) if told is not None else (),
        cost=_cost(archive, declared, told, view).text if told is not None else "",
        choice=changed_since(archive, told, view.opened_at) if told is not None else "",
        decision=_decision(told) if told is not None else None,
        trials=_trials(archive, told) if told is not None else (),
        threads=tuple(_threads(archive, finding_id)),
        commands=_commands(view, now),
        audit=tuple(archive.audit(finding_id)),
    )


def _told(view: FindingView) -> Finding | None:
    try:
        return Finding.of(view.detail).with_state(view.state)
    except (KeyError, ValueError):
        return None


def _decision(told: Finding) -> tuple[str, str, str] | None:
    if not is_winner(told):
        return None
    team, kind, workloads = told.subject.removeprefix(WINNER).split("/", 2)
    return team, kind, workloads.split("+")[0]


def _members(told: Finding) -> list[MemberRow]:
    rows = []
    for m in told.members:
        change = "" if m.effect is None else f"{100 * m.effect:+.1f} %".replace("-", "−")
        if m.ci_low is not None and m.ci_high is not None:
            change += f" ({100 * m.ci_low:+.1f} … {100 * m.ci_high:+.1f})".replace("-", "−")
        rows.append(MemberRow(words(m.name), m.text, change, m.verdict or "", m.series_key or ""))
    return rows


def _changes(archive: Archive, told: Finding, declared: Declarations) -> tuple[Change, ...]:
    """What the trials that show it ran on, against what the baseline's ran on."""
    if told.campaign_id is None or not told.series_key or not told.baseline_campaigns:
        return ()
    try:
        now = archive.sample(told.series_key, told.campaign_id).environments
        before = [facts for campaign in told.baseline_campaigns for facts in archive.sample(told.series_key, campaign).environments]
    except LookupError:
        return ()
    return diff(before, now, declared.thresholds.drift.environment)


def _cost(archive: Archive, declared: Declarations, told: Finding, view: FindingView) -> MonthlyCost:
    """By the prices of the day on which it began, as its messages say it."""
    if told.kind == "price" and view.state in SETTLED:
        return MonthlyCost(None, "")  # its effect is a fraction of a price that may hold no more
    provider = declared.providers.get(told.provider)
    return monthly_cost(told, declared.alerts, None if provider is None else at_accepted_prices(archive, provider), view.opened_at.date())


def _trials(archive: Archive, told: Finding) -> tuple[TrialView, ...]:
    """Trials of the campaign that showed it first, of the series that leads."""
    if told.campaign_id is None or not told.series_key:
        return ()
    return archive.trials_page(told.campaign_id, told.series_key, limit=SHOWN_TRIALS).rows


def _threads(archive: Archive, finding_id: str) -> list[Thread]:
    return [
        Thread(
            incident.channel,
            tuple((what, str(post.get("at", ""))[:16].replace("T", " ")) for what, post in incident.said.items()),
            f"https://slack.com/archives/{incident.channel}/p{incident.ts.replace('.', '')}" if incident.ts else "",
        )
        for incident in archive.incidents(finding_id)
    ]


def _commands(view: FindingView, now: datetime) -> tuple[tuple[str, str], ...]:
    if view.state in SETTLED:
        return ()
    why = '--why "…"'
    steps = [("It is the new normal: hold what comes against it", f"plumbline findings accept {view.finding_id} {why}")]
    if view.state == "open":
        steps.append(("It is not: keep the baseline, until the provider recovers", f"plumbline findings reject {view.finding_id} {why}"))
        steps.append(("Somebody is on it", f"plumbline findings acknowledge {view.finding_id} {why}"))
    steps.append(("It is over, or was not what it seemed", f"plumbline findings resolve {view.finding_id} {why}"))
    if view.snoozed_until is None or view.snoozed_until <= now:
        steps.append(("Not for now", f"plumbline findings snooze {view.finding_id} --until 14d {why}"))
    return tuple(steps)
