"""The list of findings, and the page of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.alerts.digest import Entry
from plumbline.analysis.drift.environment import EnvironmentChange, diff_environments
from plumbline.answers.compared_series import compared_series
from plumbline.answers.monthly_costs import SETTLED as SETTLED_STATES
from plumbline.answers.monthly_costs import monthly_cost_of
from plumbline.archive import Archive, AuditView, FindingView, TrialView
from plumbline.archive.repository import Slice
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.acting import Acting
from plumbline.dashboard.filters import ChosenOfFindings, filter_bar
from plumbline.dashboard.pages.finding_actions import TAKEN, action_forms
from plumbline.dashboard.rendering import PageRenderer, PageRoutes
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations
from plumbline.findings.compared import Compared
from plumbline.findings.decision_change import decision_impact
from plumbline.findings.headline import headline
from plumbline.findings.monthly_cost import sum_costs
from plumbline.findings.types import type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.formatting import format_change, format_name, join_words
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.findings_inbox import group_findings, inbox_view, workloads_of
from plumbline.presentation.metric_history import finding_chart, finding_history
from plumbline.presentation.verdicts import OPERATIONS
from plumbline.results.finding import OPEN_STATES, SEVERITIES, Finding, FindingKind, FindingState, Severity
from plumbline.results.signing import published_key
from plumbline.results.stored import read_finding
from plumbline.workflows.alert import digest_entries
from plumbline.workflows.claim import Claimable, claimable
from plumbline.workflows.plan import Action

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
    """`finding`: None if an older version stored it. `changes`: the baseline's environment compared with the campaign's. `commands`: (purpose,
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
    usd: float | None = None
    choice: str = ""
    trials: tuple[TrialView, ...] = ()
    decision: tuple[str, str, str] | None = None
    claim: Claimable | None = None

    @property
    def words(self) -> str:
        """The headline; of a finding that cannot be read, the stored one."""
        return headline(self.finding, self.usd) if self.finding is not None else self.view.headline

    def as_json(self) -> dict[str, Any]:
        """The page's values by name; `finding` is the archived one, whose `detail` has all of it."""
        names = ("audit", "threads", "commands", "members", "changes", "cost", "usd", "choice", "trials")
        values = {name: getattr(self, name) for name in names}
        return {"finding": replace(self.view, headline=self.words), **values, "claim": self.claim and self.claim.view}


def finding_page(archive: Archive, declared: Declarations | None, finding_id: str, now: datetime) -> FindingPage:
    """LookupError for an unknown id. Without declarations only what the archive has of it."""
    view = archive.finding(finding_id)
    page = FindingPage(view, tuple(_threads(archive, finding_id)), _commands(view, now), tuple(archive.audit(finding_id)))
    if (finding := read_finding(view)) is None or declared is None:
        return page
    history, cost = finding_history(archive, finding), monthly_cost_of(archive, declared, view)
    return replace(
        page,
        finding=finding,
        chart=finding_chart(history) if history is not None else None,
        members=tuple(_members(finding)),
        changes=_changes(archive, finding, declared),
        cost=cost.text,
        usd=cost.usd,
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


def _commands(view: FindingView, now: datetime) -> tuple[tuple[str, str], ...]:
    if view.state in SETTLED_STATES:
        return ()
    steps = [("Accept as new baseline", "accept", "")]
    if view.state == "open":
        steps += [("Reject: keep the baseline until the provider recovers", "reject", ""), ("Acknowledge", "acknowledge", "")]
    steps.append(("Resolve", "resolve", ""))
    if view.snoozed_until is None or view.snoozed_until <= now:
        steps.append(("Snooze for 14 days", "snooze", " --until 14d"))
    return tuple((purpose, f'plumbline findings {verb} {view.finding_id}{option} --why "…"') for purpose, verb, option in steps)


NoChoice = Literal[""]
WAITING_PER_PAGE, SETTLED_PER_PAGE = 300, 25
"""Open findings are one list before the settled ones, so that all of one cause are together."""
MAX_PROVIDER_NAMES = 50
"""Providers that the form offers by name; of more, one is typed."""


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, acting: Acting | None = None) -> PageRoutes:
    """`/findings` and `/findings/{finding_id}`."""
    routes = PageRoutes()

    @routes.page("/findings")
    def show_findings(
        request: Request,
        where: ChosenOfFindings,
        # A form sends an unset field as an empty string.
        state: FindingState | NoChoice = "",
        kind: FindingKind | NoChoice = "",
        severity: Severity | NoChoice = "",
        provider: str = Query("", max_length=200),
        after: str = Query("", max_length=200),
    ) -> Response:
        chosen = {"state": state, "kind": kind, "severity": severity, "provider": provider.strip()}
        declarations = declared.now()
        team_workloads = where.workloads(declarations)
        archive = reader.archive(can_see_costs(request))
        names = archive.provider_names()
        places = [name for name in names if where.fits_place(declarations, name)] if where.places else None

        def found(states: FindingState | tuple[FindingState, ...], limit: int, after: str = "") -> Slice[FindingView]:
            which = kind or None, severity or None, provider.strip() or None, after or None, limit
            return archive.findings_page(states, *which, providers=places, between=where.span(pages.now()))

        waiting = found(OPEN_STATES, WAITING_PER_PAGE).rows if not (state or after) else ()
        try:
            page = found(state or SETTLED_STATES, WAITING_PER_PAGE if state in OPEN_STATES else SETTLED_PER_PAGE, after)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        # A team's are those of its workloads, and those of a provider as a whole.
        rows = [
            view
            for view in (*waiting, *page.rows)
            if team_workloads is None or not (finding_workloads := workloads_of(view)) or finding_workloads & team_workloads
        ]
        following = where.query(**chosen, after=page.after) if page.after else None
        entries = digest_entries(archive, declarations, [view for view in rows if view.state in OPEN_STATES])
        groups = group_findings(rows, {name: entry.cost.usd for name, entry in entries.items()} if can_see_costs(request) else {})
        forms = action_forms(acting, request, declarations, [[(item.view, item.words) for item in g.items] for g in groups])
        owners = _owners(archive, rows, entries)
        total = sum_costs(entry.cost for entry in entries.values()) if can_see_costs(request) else None
        return pages.page(
            request,
            "findings.html.j2",
            inbox_view(groups, total, page.after),
            total=total,
            compared=Compared(0, 0) if groups else compared_series(archive),
            groups=[(g, form, owners[g.lead.view.finding_id]) for g, form in zip(groups, forms, strict=True)],
            chosen=where,
            own=chosen,
            bar=filter_bar("/findings", declarations, where, can_see_costs(request), state=state),
            providers=names if len(names) <= MAX_PROVIDER_NAMES else (),
            states=[(s, where.query(**{**chosen, "state": s})) for s in ("", *get_args(FindingState))],
            kinds=get_args(FindingKind),
            severities=SEVERITIES,
            following=following,
            begun=bool(after),
            first=where.query(**chosen),
        )

    @routes.page("/findings/{finding_id}")
    def show_finding(request: Request, finding_id: str, requested: Action | NoChoice = "") -> Response:
        try:
            finding = finding_page(reader.archive(can_see_costs(request)), declared.now(can_see_costs(request)), finding_id, pages.now())
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        (form,) = action_forms(acting, request, declared.now(), [[(finding.view, finding.words)]])
        return pages.page(request, "finding.html.j2", finding.as_json(), f=finding, form=form, requested=requested, key=published_key())

    return routes


def _owners(archive: Archive, views: Sequence[FindingView], entries: Mapping[str, Entry]) -> dict[str, str]:
    """Who takes care of each: the person who acknowledged or accepted it, else the teams that use its workloads, else the operators."""
    taken = {e.subject: e.who for e in archive.audit(tuple(v.finding_id for v in views if v.state != "open")) if e.what in TAKEN}
    teams = {name: join_words(entry.teams) for name, entry in entries.items()}
    return {view.finding_id: taken.get(view.finding_id) or teams.get(view.finding_id) or OPERATIONS for view in views}
