"""The form that starts a decision's next best experiment, and the route that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from plumbline.analysis.decisions.experiments import Experiment
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.dashboard.acting import Acting, Actor, actor_of, reason_error
from plumbline.dashboard.rendering import PageRoutes, RefusedForm, TypedField, base_path
from plumbline.dashboard.site import Site
from plumbline.dashboard.sources import DeclarationsReader
from plumbline.workflows.finding_action import ActionNotStarted, ActionRun, AlreadyStarted
from plumbline.workflows.plan import RERUN_DAG, RepeatRequest

_REFUSED = f"repeats require a role that may start runs of the DAG {RERUN_DAG} and of the provider's benchmark"
_PURPOSE = "repeats"


@dataclass(frozen=True)
class RepeatForm:
    """`tokens`: of each experiment that can be started, by provider and workload. `runs`: of those requested that have no results yet."""

    tokens: dict[tuple[str, str], str]
    runs: tuple[tuple[Experiment, ActionRun], ...]


def repeat_form(
    acting: Acting | None, request: Request, declared: DeclarationsReader, team: str, kind: WorkloadKind, experiments: Sequence[Experiment]
) -> RepeatForm | None:
    """None if the user may not start runs."""
    actor = actor_of(request, RERUN_DAG)
    if acting is None or actor is None or not experiments:
        return None
    latest = acting.runs.latest()
    requested = [(e, latest[key]) for e in experiments if (key := _request(kind, e, "").key) in latest]
    waiting = {(e.provider, e.workload) for e, run in requested if run.state != "failed"}
    startable = [e for e in experiments if (e.provider, e.workload) not in waiting and _may_start(actor, declared, e.provider)]
    tokens = {
        (e.provider, e.workload): acting.sign(actor, _PURPOSE, team, kind, e.provider, e.workload, str(e.repeats), e.campaign)
        for e in startable
    }
    return RepeatForm(tokens, tuple(requested))


def _request(kind: str, experiment: Experiment, reason: str) -> RepeatRequest:
    return RepeatRequest(experiment.provider, experiment.workload, kind, experiment.repeats, experiment.campaign, reason)


def _may_start(actor: Actor, declared: DeclarationsReader, provider: str) -> bool:
    declaration = declared.now().providers.get(provider)
    return declaration is not None and declaration.enabled and actor.may_start(declaration.dag_id)


def router(site: Site) -> PageRoutes:
    """`POST /decisions/repeats`."""
    routes = PageRoutes(include_in_schema=False, money=True)
    pages, reader, declared, acting = site.pages, site.reader, site.declared, site.acting
    if acting is None:
        return routes

    @routes.post("/decisions/repeats")
    def start_repeats(
        request: Request,
        form: Annotated[str, Form()] = "",
        why: Annotated[str, Form()] = "",
    ) -> Response:
        actor = actor_of(request, RERUN_DAG)
        if actor is None:
            raise HTTPException(403, _REFUSED)
        team, kind, provider, workload, repeats, campaign = acting.verify(actor, _PURPOSE, form)
        if not _may_start(actor, declared, provider):
            raise HTTPException(403, _REFUSED)

        def refused(status: int, wrong_reason: str = "", error: str = "", mended_at: str = "") -> Response:
            fields = (TypedField("form", form), TypedField("why", why, "Reason", wrong_reason))
            typed = RefusedForm("/decisions/repeats", fields, (("", "Measure again"),), "post", error, mended_at)
            about = [(f"{provider}, {workload}: {repeats} repeats", f"/decisions/{team}/{kind}?workload={workload}")]
            return pages.refused(request, "Not started", typed, status, about)

        if wrong := reason_error(why):
            return refused(422, wrong)
        current = {p.campaign_id for p in reader.archive().newest_usable([workload], [provider])}
        if campaign not in current:
            text = f"{provider} has newer results of {workload} than the page showed: reload the decision."
            return pages.message(request, "Already measured", text, 409)
        repeat_request = RepeatRequest(
            provider, workload, kind, int(repeats), campaign, why.strip(), declared.now().providers[provider].dag_id
        )
        try:
            acting.runs.start(repeat_request, repeat_request.key, actor.name)
        except AlreadyStarted as error:
            return pages.page(request, "acted.html.j2", status=409, title="Already requested", done=(), runs=[error.run])
        except ActionNotStarted as error:
            return refused(503, error=f"{error}.", mended_at=error.path)
        return RedirectResponse(f"{base_path(request)}/decisions/{team}/{kind}?workload={workload}#experiments", 303)

    return routes
