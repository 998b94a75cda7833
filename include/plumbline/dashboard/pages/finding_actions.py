"""The forms that act on findings, and the route that takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from fastapi import Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from plumbline.archive import Archive, FindingView
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.acting import REFUSED, Acting, Actor, actor_of, reason_error
from plumbline.dashboard.rendering import PageRoutes, RefusedForm, TypedField, base_path
from plumbline.dashboard.site import Site
from plumbline.declarations import Declarations
from plumbline.findings.types import stored_type
from plumbline.workflows.baseline_decision import action_key
from plumbline.workflows.finding_action import (
    ActionNotStarted,
    ActionRequest,
    ActionRun,
    AlreadyStarted,
    possible_actions,
    rerun_of,
    snooze_end,
)
from plumbline.workflows.plan import Action

_AUDIT_VERBS = {
    "finding_acknowledged": "acknowledged",
    "finding_accepted": "accepted",
    "finding_resolved": "resolved",
    "finding_reopened": "reopened",
    "finding_snoozed": "snoozed",
    "baseline_kept": "rejected",
    "rerun_asked": "rerun",
    "claim_sent": "claim sent",
    "claim_credited": "credit received",
    "claim_refused": "claim refused",
}
TAKEN = ("finding_acknowledged", "finding_accepted")
"""Actions that give a finding an owner."""
_LABELS: dict[Action, str] = {
    "acknowledge": "Acknowledge",
    "accept": "Accept",
    "reject": "Reject",
    "resolve": "Resolve",
    "snooze": "Snooze",
    "rerun": "Rerun",
    "reopen": "Reopen with the old baseline",
    "claimed": "Claim sent",
    "credited": "Credit received",
    "refused": "Claim refused",
}


@dataclass(frozen=True)
class ActionForm:
    """`findings`: token and name of each finding that the form acts on. `buttons`: action and label. `runs`: what was requested since their last
    change."""

    findings: tuple[tuple[str, str], ...]
    buttons: tuple[tuple[Action, str], ...]
    runs: tuple[ActionRun, ...]


def action_forms(
    acting: Acting | None, request: Request, declared: Declarations, groups: Sequence[Sequence[tuple[FindingView, str]]]
) -> list[ActionForm | None]:
    """A form for each group of findings and their names, the leading one first; None if the user may not act, or all are settled."""
    actor = actor_of(request)
    if acting is None or actor is None:
        return [None] * len(groups)
    latest = acting.runs.latest()
    return [_form(acting, actor, declared, group, latest) for group in groups]


def _form(
    acting: Acting, actor: Actor, declared: Declarations, findings: Sequence[tuple[FindingView, str]], latest: Mapping[str, ActionRun]
) -> ActionForm | None:
    waiting = [(view, name, actions) for view, name in findings if (actions := _allowed_actions(actor, declared, view))]
    if not waiting:
        return None
    # A rerun is one run a finding, so only the form of one finding offers it.
    shared = [a for a in waiting[0][2] if all(a in actions for _, _, actions in waiting) and (a != "rerun" or len(waiting) == 1)]
    keys = [action_key(view, action) for view, _, _ in waiting for action in _LABELS]
    return ActionForm(
        tuple((acting.form_token(actor, view), name) for view, name, _ in waiting),
        tuple((action, _label(action, waiting[0][0], declared)) for action in shared),
        tuple(latest[key] for key in keys if key in latest),
    )


def _label(action: Action, view: FindingView, declared: Declarations) -> str:
    of = stored_type(view.kind, str(view.detail.get("subject", "")))
    if action == "accept":
        return of.accept_label
    if action == "reject":
        return of.reject_label
    if action == "rerun" and "placement" in rerun_of(declared, view).conf:
        return "Rerun on a fresh node"
    return _LABELS[action]


def _allowed_actions(actor: Actor, declared: Declarations, view: FindingView) -> list[Action]:
    actions = list(possible_actions(declared, view))
    if "rerun" in actions and not actor.may_start(rerun_of(declared, view).dag_id):
        actions.remove("rerun")
    return actions


def router(site: Site) -> PageRoutes:
    """`POST /findings/act`."""
    routes = PageRoutes(include_in_schema=False)
    pages, reader, declared, acting = site.pages, site.reader, site.declared, site.acting
    if acting is None:
        return routes

    @routes.post("/findings/act")
    def act(
        request: Request,
        action: Annotated[Action | Literal[""], Form()] = "",
        form: Annotated[list[str], Form()] = [],  # noqa: B006 (FastAPI copies it)
        why: Annotated[str, Form()] = "",
        until: Annotated[str, Form()] = "",
    ) -> Response:
        actor = actor_of(request)
        if actor is None:
            raise HTTPException(403, REFUSED)
        if not form:
            raise HTTPException(403, "the form has no token: reload the page")
        # First the tokens: nothing is read for another user's form.
        form_states = [acting.verify(actor, "finding_action", token) for token in form]
        archive = reader.archive(can_see_costs(request))
        try:
            views = [(archive.finding(finding_id), form_updated_at) for finding_id, form_updated_at in form_states]
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        changed_views = [view for view, form_updated_at in views if view.updated_at.isoformat() != form_updated_at]
        if changed_views:
            return pages.page(request, "acted.html.j2", status=409, title="Already changed", done=_history(archive, changed_views), runs=())
        declarations = declared.now()

        def refused(status: int, errors: Mapping[str, str], mended_at: str = "") -> Response:
            named = [(view, view.headline) for view, _ in views]
            again = _form(acting, actor, declarations, named, {})
            fields = [TypedField("form", token) for token in form]
            fields.append(TypedField("why", why, "Reason", errors.get("why", "")))
            fields += [TypedField("until", until, "Snooze until", errors.get("until", ""))] if until else []
            typed = RefusedForm("/findings/act", tuple(fields), again.buttons if again else (), "post", errors.get("", ""), mended_at)
            about = [(view.headline, f"/findings/{view.finding_id}") for view, _ in views]
            return pages.refused(request, "Not accepted", typed, status, about)

        end, errors = _check_form(action, why, until, len(views), pages.now())
        if errors:
            return refused(422, errors)
        assert action
        starts = ""
        for view, _ in views:
            if action not in possible_actions(declarations, view):
                return pages.page(request, "acted.html.j2", status=409, title="Not possible", done=_history(archive, [view]), runs=())
            if action == "rerun" and not actor.may_start(starts := rerun_of(declarations, view).dag_id):
                raise HTTPException(403, f"a rerun requires a role that may start runs of the DAG {starts}")
        earlier_runs: list[ActionRun] = []
        for view, _ in views:
            try:
                acting.runs.start(ActionRequest(view.finding_id, action, why.strip(), end, starts), action_key(view, action), actor.name)
            except AlreadyStarted as error:
                earlier_runs.append(error.run)
            except ActionNotStarted as error:
                return refused(503, {"": f"{error}."}, error.path)
        if earlier_runs:
            return pages.page(request, "acted.html.j2", status=409, title="Already requested", done=(), runs=earlier_runs)
        return RedirectResponse(f"{base_path(request)}/findings/{views[0][0].finding_id}?requested={action}#actions", 303)

    return routes


def _check_form(action: str, reason: str, until: str, findings: int, now: datetime) -> tuple[datetime | None, dict[str, str]]:
    """The end of a snooze; by field, why it is not accepted, "" for what concerns no single one."""
    errors, end = {}, None
    if wrong := reason_error(reason):
        errors["why"] = wrong
    if not action:
        errors[""] = "No action chosen: use one of the form's buttons."
    if action == "rerun" and findings > 1:
        errors[""] = "A rerun is for one finding: choose one."
    if action == "snooze":
        try:
            end = snooze_end(until.strip(), now)
        except ValueError as error:
            errors["until"] = f"{error}."
        if end is not None and end <= now:
            errors["until"] = f'"{until}" is past; expected a time to come.'
    return end, errors


def _history(archive: Archive, views: Sequence[FindingView]) -> tuple[tuple[FindingView, tuple[tuple[datetime, str, str, str], ...]], ...]:
    """Actions on each finding, newest first: time, action, author, reason."""
    return tuple(
        (
            view,
            tuple((e.at, _AUDIT_VERBS[e.what], e.who, e.why) for e in reversed(archive.audit(view.finding_id)) if e.what in _AUDIT_VERBS),
        )
        for view in views
    )
