"""One trial without Airflow: the same launcher, collect, checks and archive as in a DAG, in this process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from plumbline.declarations import Declarations, Trial, places, trial_id
from plumbline.harness.progress import ProgressLine
from plumbline.launch.plan import Request, plan
from plumbline.orchestration import steps
from plumbline.results import ResultDocument, ResultStore


def planned_trial(declared: Declarations, workload: str, provider: str, *, slot: str | None = None) -> Trial:
    """One trial of one workload on one provider, in a campaign of its own; raises PlanError if it does not fit."""
    now = datetime.now(timezone.utc)
    request = Request(
        campaign_id=now.strftime("trial-%Y%m%d-%H%M%S"),
        reason="one trial from the command line",
        providers=(provider,),
        workloads=(workload,),
        slots=(slot,) if slot else (declared.workloads[workload].repeats.slots[0],) if workload in declared.workloads else None,
        repeats=1,
    )
    return plan(declared, request, now)[0]


def replayed(recorded: Trial) -> Trial:
    """The same trial again, from its record: specification, criteria and hashes are kept, only its place in time is new."""
    now = datetime.now(timezone.utc)
    campaign = now.strftime("replay-%Y%m%d-%H%M%S")
    changed = {
        "trial_id": trial_id(campaign, recorded.provider, recorded.workload, recorded.slot, recorded.repeat),
        "campaign_id": campaign,
        "reason": f"replay of {recorded.trial_id}",
        "planned_at": now,
        "attempt": 1,
        "selfcheck": True,
        "replay_of": recorded.trial_id,
        "origin": None,
    }
    # Through JSON, so that the copy is checked as a new trial is: the hashes must still hold.
    return Trial.model_validate_json(recorded.model_copy(update=changed).model_dump_json())


def run_directly(trial: Trial, on_progress: Callable[[ProgressLine], None] | None = None) -> ResultDocument:
    """Launch, collect, check and record one trial; the document of its last attempt, whatever became of it."""
    from plumbline.launch import launcher_for

    store = ResultStore(places().results_url)
    spec = {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id}
    steps.keep(store, trial)
    launcher_for(trial.provider).launch(trial, store, on_progress)
    steps.collect(spec)
    (checked,) = steps.validate(trial.provider.name, trial.workload.kind, [spec])
    steps.record(checked)
    return store.collected(store.attempts(trial.campaign_id, trial.trial_id)[-1])
