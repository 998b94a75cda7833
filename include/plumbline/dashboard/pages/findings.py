"""The list of findings, and the page of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, get_args

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.answers.compared_series import compared_series
from plumbline.answers.costed_findings import CostedFinding, costed_findings
from plumbline.answers.ledger import ledger_of
from plumbline.answers.monthly_costs import SETTLED as SETTLED_STATES
from plumbline.answers.trial_credits import trial_credits
from plumbline.archive import Archive, FindingView
from plumbline.archive.repository import Slice
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.filters import ChosenOfFindings, filter_bar
from plumbline.dashboard.pages.finding_actions import TAKEN, action_forms
from plumbline.dashboard.rendering import NavEntry, PageRoutes
from plumbline.dashboard.site import Site
from plumbline.findings.compared import Compared
from plumbline.metrics.formatting import join_words
from plumbline.presentation.filters import Filter
from plumbline.presentation.finding_page import finding_page
from plumbline.presentation.findings_inbox import group_findings, inbox_view, workloads_of
from plumbline.presentation.ledger_words import unclaimed_text
from plumbline.presentation.tiles import money_sentences
from plumbline.presentation.verdicts import OPERATIONS
from plumbline.results.finding import OPEN_STATES, SEVERITIES, FindingKind, FindingState, Severity
from plumbline.results.installation_keys import published_keys
from plumbline.workflows.plan import Action

NoChoice = Literal[""]
WAITING_PER_PAGE, SETTLED_PER_PAGE = 300, 25
"""Open findings are one list before the settled ones, so that all of one cause are together."""
MOST_COUNTED = 100_000
"""Open findings that are added up."""
MAX_PROVIDER_NAMES = 50
"""Providers that the form offers by name; of more, one is typed."""


def router(site: Site) -> PageRoutes:
    """`/findings` and `/findings/{finding_id}`."""
    routes = PageRoutes(NavEntry(50, "Findings", "/findings"))
    pages, reader, declared, acting = site.pages, site.reader, site.declared, site.acting

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
        rows = [view for view in (*waiting, *page.rows) if _concerns(view, team_workloads)]
        following = where.query(**chosen, after=page.after) if page.after else None
        counted = rows
        if len([view for view in rows if view.state in OPEN_STATES]) >= WAITING_PER_PAGE or after:  # the sum is over every page
            counted = [
                view
                for view in found(tuple(s for s in OPEN_STATES if state in ("", s)), MOST_COUNTED).rows
                if _concerns(view, team_workloads)
            ]
        entries = costed_findings(archive, declarations, [view for view in (*counted, *rows) if view.state in OPEN_STATES])
        ledger = None
        if can_see_costs(request):
            oldest_first = sorted(entries.values(), key=lambda entry: (entry.opened, entry.finding.finding_id))
            credits = trial_credits(archive, declarations, [entry.finding for entry in oldest_first])
            # Those that no finding claims where the list is of all.
            narrowed = where != Filter() or bool(kind or severity or provider.strip() or state)
            ledger = ledger_of(oldest_first, credits=[credit for credit in credits if credit.findings or not narrowed])
        listed, every = (sum(view.state in OPEN_STATES for view in views) for views in (rows, counted))
        groups = group_findings(rows, {name: entry.cost for name, entry in entries.items()} if ledger is not None else {}, ledger)
        forms = action_forms(acting, request, declarations, [[(item.view, item.words) for item in g.items] for g in groups])
        owners = _owners(archive, rows, entries)
        return pages.page(
            request,
            "findings.html.j2",
            inbox_view(groups, ledger, page.after),
            sums=money_sentences(ledger.total()) if ledger is not None else (),
            part=f"{listed} of {every} open findings are on this page; the sum is over all of them" if listed < every else "",
            ledger=ledger,
            unclaimed=unclaimed_text(ledger) if ledger is not None else "",
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
        return pages.page(request, "finding.html.j2", finding.as_json(), f=finding, form=form, requested=requested, keys=published_keys())

    return routes


def _concerns(view: FindingView, workloads: AbstractSet[str] | None) -> bool:
    """Whether it is of these workloads, of any if None, or of a provider as a whole."""
    return workloads is None or not (own := workloads_of(view)) or bool(own & workloads)


def _owners(archive: Archive, views: Sequence[FindingView], entries: Mapping[str, CostedFinding]) -> dict[str, str]:
    """Who takes care of each: the person who acknowledged or accepted it, else the teams that use its workloads, else the operators."""
    taken = {e.subject: e.who for e in archive.audit(tuple(v.finding_id for v in views if v.state != "open")) if e.what in TAKEN}
    teams = {name: join_words(entry.teams) for name, entry in entries.items()}
    return {view.finding_id: taken.get(view.finding_id) or teams.get(view.finding_id) or OPERATIONS for view in views}
