"""The view of one finding: its words, chart, members, changes, trials, claim and commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from plumbline.analysis.drift.environment import EnvironmentChange, diff_environments
from plumbline.answers.claim_marks import ClaimMark, claim_marks
from plumbline.answers.claims import Claimable, claimable
from plumbline.answers.ledger import Ledger, LedgerRow, open_ledger
from plumbline.answers.monthly_costs import SETTLED as SETTLED_STATES
from plumbline.answers.monthly_costs import monthly_cost_of
from plumbline.archive import Archive, AuditView, FindingView, TrialView
from plumbline.declarations import Declarations
from plumbline.findings.decision_change import decision_impact
from plumbline.findings.headline import headline
from plumbline.findings.types import type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.formatting import capitalize_first, format_change, format_name
from plumbline.metrics.units import Amount, AmountText
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.events.event import StreamEvent
from plumbline.presentation.ledger_words import counted_text
from plumbline.presentation.metric_history import finding_chart, finding_history, history_events
from plumbline.results.finding import OPEN_STATES, Finding
from plumbline.results.stored import read_finding

TRIALS_SHOWN = 24


@dataclass(frozen=True)
class MemberRow:
    """One metric, or one fact, that moved. `change` with its interval, as fractions of the baseline."""

    name: str
    text: str
    change: str
    verdict: str
    series: str


@dataclass(frozen=True)
class SlackThread:
    """Where it is talked about. `link` opens the thread in whichever workspace of Slack the reader is signed in to; empty before a message arrived."""

    channel: str
    posts: tuple[tuple[str, str], ...]
    link: str


@dataclass(frozen=True)
class FindingPage:
    """`finding`: None if an older version stored it. `changes`: the baseline's environment compared with the campaign's. `cost`, `usd`: what it costs
    alone; `row`: the row of the ledger that has the amount, `counted`: what it is part of, in words. `mark`: what became of its claim. `commands`: (purpose,
    command). `choice`: impact on first choices since. `decision`: (team, kind, workload) of the changed first choice that the finding is about.
    `claim`: what can be claimed; None of a kind that no contract covers."""

    view: FindingView
    threads: tuple[SlackThread, ...]
    commands: tuple[tuple[str, str], ...]
    audit: tuple[AuditView, ...]
    finding: Finding | None = None
    chart: Chart | None = None
    members: tuple[MemberRow, ...] = ()
    changes: tuple[EnvironmentChange, ...] = ()
    cost: str = ""
    usd: Amount | None = None
    credit: Amount | None = None
    claim_text: AmountText = ""
    choice: str = ""
    trials: tuple[TrialView, ...] = ()
    decision: tuple[str, str, str] | None = None
    claim: Claimable | None = None
    row: LedgerRow | None = None
    counted: str = ""
    mark: ClaimMark | None = None
    events: tuple[StreamEvent, ...] = ()

    @property
    def words(self) -> str:
        """The headline; of a finding that cannot be read, the stored one."""
        return headline(self.finding, self.headline_usd, self.credit, self.claim_text) if self.finding is not None else self.view.headline

    @property
    def headline_usd(self) -> float | None:
        """The amount of the first line; see `Ledger.headline_usd`."""
        own = self.row if self.row is not None and self.row.row_id == self.view.finding_id else None
        return self.usd if own is None or own.change is None else own.change

    def as_json(self) -> dict[str, Any]:
        """The page's values by name; `finding` is the archived one, whose `detail` has all of it."""
        names = (
            "audit",
            "threads",
            "commands",
            "members",
            "changes",
            "cost",
            "usd",
            "row",
            "counted",
            "credit",
            "mark",
            "choice",
            "trials",
            "events",
        )
        values = {name: getattr(self, name) for name in names}
        return {"finding": replace(self.view, headline=self.words), **values, "claim": self.claim and self.claim.view}


def finding_page(archive: Archive, declared: Declarations | None, finding_id: str, now: datetime) -> FindingPage:
    """LookupError for an unknown id. Without declarations only what the archive has of it."""
    view = archive.finding(finding_id)
    finding = read_finding(view)
    commands = _commands(view, finding, now)
    page = FindingPage(view, tuple(_threads(archive, finding_id)), commands, tuple(archive.audit(finding_id)))
    if finding is None or declared is None:
        return page
    history, cost = finding_history(archive, finding), monthly_cost_of(archive, declared, view)
    ledger = open_ledger(archive, declared) if view.state in OPEN_STATES else Ledger()
    events = history_events(archive, declared, finding, history) if history is not None else ()
    return replace(
        page,
        finding=finding,
        chart=finding_chart(history, events) if history is not None else None,
        events=events,
        members=tuple(_members(finding)),
        changes=_changes(archive, finding, declared),
        cost=cost.text,
        usd=cost.usd,
        credit=cost.credit,
        claim_text=cost.claim,
        row=ledger.row_with(finding_id),
        counted=counted_text(ledger, finding_id),
        mark=claim_marks(archive, [finding_id]).get(finding_id),
        choice=decision_impact(archive, finding, view.opened_at),
        trials=_trials(archive, finding),
        decision=_decision(finding),
        claim=claimable(archive, declared, [view])[finding_id] if type_of(finding).claimable else None,
    )


def _decision(finding: Finding) -> tuple[str, str, str] | None:
    if not FirstChoice.has(finding):
        return None
    team, kind, workloads = FirstChoice.choice(finding)
    return team, kind, workloads[0]


def _members(finding: Finding) -> list[MemberRow]:
    rows = []
    for m in finding.members:
        change = format_change(m.effect)
        if m.ci_low is not None and m.ci_high is not None:
            change += f" ({format_change(m.ci_low)} … {format_change(m.ci_high)})"
        rows.append(MemberRow(format_name(m.name), m.text, change, m.verdict or "", m.series_key or ""))
    return rows


def _changes(archive: Archive, finding: Finding, declared: Declarations) -> tuple[EnvironmentChange, ...]:
    """Environments of the trials that show the finding against the baseline's."""
    if finding.campaign_id is None or not finding.series_key or not finding.baseline_campaigns:
        return ()
    try:
        current = archive.sample(finding.series_key, finding.campaign_id).environments
        baseline = [facts for campaign in finding.baseline_campaigns for facts in archive.sample(finding.series_key, campaign).environments]
    except LookupError:
        return ()
    return diff_environments(baseline, current, declared.thresholds.drift.environment)


def _trials(archive: Archive, finding: Finding) -> tuple[TrialView, ...]:
    """Trials of the campaign that showed it first, of the series that leads."""
    if finding.campaign_id is None or not finding.series_key:
        return ()
    return archive.trials_page(finding.campaign_id, finding.series_key, limit=TRIALS_SHOWN).rows


def _threads(archive: Archive, finding_id: str) -> list[SlackThread]:
    return [
        SlackThread(
            incident.channel,
            tuple((post_name, str(post.get("at", ""))[:16].replace("T", " ")) for post_name, post in incident.posts.items()),
            f"https://slack.com/archives/{incident.channel}/p{incident.ts.replace('.', '')}" if incident.ts else "",
        )
        for incident in archive.incidents(finding_id)
    ]


def _commands(view: FindingView, finding: Finding | None, now: datetime) -> tuple[tuple[str, str], ...]:
    """What its type lets a person do, as the buttons do: (purpose, command). Of one that cannot be read what holds for every finding."""
    of = type_of(finding.with_state(view.state)) if finding is not None else None
    steps: list[tuple[str, str, str]] = []
    if view.state in SETTLED_STATES:
        reopens = of is not None and of.accepting == "baseline" and view.state == "accepted"
        steps = [("Reopen with the old baseline", "reopen", "")] if reopens else []
        return tuple(_command(view, *step) for step in steps)
    own: list[tuple[str, str]] = []
    if of is not None and finding is not None:
        answers = tuple(
            f"plumbline findings {verb} " for verb in ("show", "accept", "resolve", "acknowledge", "claimed", "credited", "refused")
        )
        every = of.steps(finding.with_state(view.state))
        own = [(capitalize_first(purpose), command) for command, purpose in every if not command.startswith(answers)]
        if of.accepting is not None:
            steps.append((of.accept_label, "accept", ""))
            steps += [(of.reject_label, "reject", "")] if of.reject_label and view.state == "open" else []
    if of is not None and of.grants_credit:
        steps += [("Claim sent", "claimed", "")] if view.state == "open" else []
        steps += [("Credit received", "credited", ""), ("Claim refused", "refused", "")]
    if view.state == "open":
        steps.append(("Acknowledge", "acknowledge", ""))
    steps.append((f"Resolve: {of.resolved_if}" if of is not None else "Resolve", "resolve", ""))
    if view.snoozed_until is None or view.snoozed_until <= now:
        steps.append(("Snooze for 14 days", "snooze", " --until 14d"))
    return (*own, *(_command(view, *step) for step in steps))


def _command(view: FindingView, purpose: str, verb: str, option: str) -> tuple[str, str]:
    return purpose, f'plumbline findings {verb} {view.finding_id}{option} --why "…"'
