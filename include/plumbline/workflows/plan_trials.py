"""Plan trials: those of a lane of a run, a single one, or a repeat of a recorded one; store their specifications."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timezone

from pydantic import ValidationError

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider, Trial, load_in_force
from plumbline.declarations import trial_id as make_trial_id
from plumbline.launch import stores
from plumbline.launch.plan import PlanError, RunRequest, enabled_provider, fitting_workload, on_each_node, plan, single_trial
from plumbline.launch.registry import launcher_for
from plumbline.results import ResultStore
from plumbline.results.bounded_json import first_error
from plumbline.results.launch_record import nodes_of
from plumbline.workflows import alert, budget
from plumbline.workflows.lane_outcome import Row
from plumbline.workflows.plan import TrialGroup, node_names, trial_groups

_log = logging.getLogger(__name__)


_CAMPAIGNS_AVOIDED = 3


def note_rerun(request: RunRequest, providers: Sequence[str], by: str, run_id: str) -> None:
    """Write a rerun that a person asked for to the audit log, once a run of the DAG; its subject is the campaign."""
    detail = {"providers": list(providers), "workloads": list(request.workloads or ()), "repeats": request.repeats, "run_id": run_id}
    with open_archive() as archive:
        archive.add_audit(
            who=by, what="rerun_asked", subject=request.campaign_id, why=request.reason, detail=detail, once=f"rerun_asked/{run_id}"
        )


def plan_trials(provider: str, lane: TrialGroup, request: RunRequest, most: int | None = None) -> list[Row]:
    """Plan the trials of one lane and store their specifications; one {campaign_id, trial_id, title} each.

    Planning again gives the same trials and keeps stored specifications. PlanError if the campaign has a trial of that name with another
    specification, or if there are more than `most`, Airflow's limit of mapped tasks. Trials over the provider's monthly budget are skipped,
    with a finding; BudgetReached if none of the lane is left.
    """
    declared, now = load_in_force(), datetime.now(timezone.utc)
    if (why := declared.why_no_trial_starts(now)) is not None:
        raise PlanError(why)
    nodes = node_names(declared.providers[provider], request, now)
    trials = lane.of(on_each_node(plan(declared, declared.providers[provider], request, now, (lane.kind,)), nodes, request.rounds))
    if request.workloads is None:
        for workload, why in declared.left_out(declared.providers[provider]):
            _log.warning("%s does not measure %s monthly: %s", provider, workload.name, why)
    if most is not None and len(trials) > most:
        raise PlanError(
            f"{len(trials)} trials of {lane.name} on {provider} in one run, but Airflow maps at most {most} tasks (core.max_map_length); "
            "expected fewer repeats or workloads, or a higher setting in all of Airflow's components"
        )
    trials = _within_budget(declared, declared.providers[provider], lane, request, trials, now, nodes)
    if request.placement == "fresh_node":
        trials = _on_fresh_nodes(trials)
    store = stores.home()
    for trial in trials:
        store_planned_trial(store, trial)
    return [{"campaign_id": t.campaign_id, "trial_id": t.trial_id, "title": f"{t.workload.name} {t.slot} r{t.repeat}"} for t in trials]


def _within_budget(
    declared: Declarations,
    provider: Provider,
    lane: TrialGroup,
    request: RunRequest,
    trials: list[Trial],
    now: datetime,
    nodes: tuple[str, ...] | None,
) -> list[Trial]:
    if provider.budget is None or not trials:
        return trials
    every = on_each_node(plan(declared, provider, request, now), nodes, request.rounds)
    with open_archive() as archive:
        cut = budget.apply_budget(archive, provider, every, now)
        # All lanes of a run are cut alike: the first one with trials opens the finding.
        reports = lane == next(own for own in trial_groups(declared, provider) if own.of(every))
        finding = budget.store_budget_finding(archive, cut, now) if reports else None
    if finding is not None:
        alert.send_alerts()
    _log.log(logging.WARNING if cut.left_out else logging.INFO, "budget: %s", cut)
    kept_ids = {trial.trial_id for trial in cut.kept}
    if not any(trial.trial_id in kept_ids for trial in trials):
        raise budget.BudgetReached(cut.advice)
    return [trial for trial in trials if trial.trial_id in kept_ids]


def _on_fresh_nodes(trials: list[Trial]) -> list[Trial]:
    with open_archive() as archive:
        used = {key: recent_nodes(archive, key) for key in {trial.series_key for trial in trials}}
    return [launcher_for(trial.provider).fresh_node(trial, used[trial.series_key]) for trial in trials]


def recent_nodes(archive: Archive, series_key: str) -> tuple[str, ...]:
    nodes = set[str]()
    for campaign in archive.campaigns(series_key, latest=_CAMPAIGNS_AVOIDED):
        for attempt in archive.trials(campaign.campaign_id, series_key):
            document = archive.document(attempt.trial_id, attempt.attempt)
            nodes |= nodes_of(document) if document is not None else set()
    return tuple(sorted(nodes))


def store_planned_trial(store: ResultStore, trial: Trial) -> None:
    """Store a planned trial once; PlanError if the campaign has a trial of that name with another specification.

    Planning again updates only where it runs, so that a repaired declaration applies from the next attempt on.
    """
    path = stores.planned_path(trial.campaign_id, trial.trial_id)
    if not store.exists(path):
        store.put(path, trial.model_dump_json(indent=1).encode())
        return
    stored = stores.planned_trial(store, {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id})
    if (stored.series_key, stored.spec_hash, stored.criteria_hash) != (trial.series_key, trial.spec_hash, trial.criteria_hash):
        raise PlanError(
            f"campaign {trial.campaign_id} already holds {trial.trial_id} with another specification or other criteria; "
            "name another campaign: trials of one campaign are measured and judged alike"
        )
    again = stored.model_copy(update={field: getattr(trial, field) for field in ("provider", "placement", "avoid_nodes", "on_nodes")})
    if again != stored:
        store.put(path, again.model_dump_json(indent=1).encode())


def plan_single_trial(declared: Declarations, workload: str, provider: str) -> Trial:
    """One trial of one workload on one provider, in a campaign of its own; raises PlanError if it does not fit."""
    now = datetime.now(timezone.utc)
    place = enabled_provider(declared, provider)
    request = RunRequest(now.strftime("trial-%Y%m%d-%H%M%S"), "one trial from the command line")
    return single_trial(declared, place, fitting_workload(declared, place, workload), request, now)


def plan_replay(recorded: Trial) -> Trial:
    """A repeat of the trial from its record: specification, criteria and hashes stay, only its time is new."""
    now = datetime.now(timezone.utc)
    campaign = now.strftime("replay-%Y%m%d-%H%M%S")
    changed = {
        "trial_id": make_trial_id(campaign, recorded.provider, recorded.workload, recorded.slot, recorded.repeat),
        "campaign_id": campaign,
        "reason": f"replay of {recorded.trial_id}",
        "planned_at": now,
        "attempt": 1,
        "selfcheck": True,
        "replay_of": recorded.trial_id,
        "origin": None,
    }
    try:  # today's rules too: a record may be older, or another installation's
        for declared in (recorded.provider, recorded.workload):
            type(declared).model_validate_json(declared.model_dump_json())
    except ValidationError as error:
        raise PlanError(f"{recorded.trial_id} cannot run again: {first_error(error)}") from None
    # Through JSON, so that the copy is validated with its hashes.
    return Trial.model_validate_json(recorded.model_copy(update=changed).model_dump_json())
