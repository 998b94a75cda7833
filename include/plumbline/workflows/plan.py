"""Plan a benchmark run: the trials of a monthly slot, of a form or of a command; their task groups, pools and DAG runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Protocol, get_args

from plumbline.declarations import AnyWorkload, Declarations, Origin, Provider, Trial
from plumbline.declarations.dag_ids import ACTION_DAG as ACTION_DAG
from plumbline.declarations.dag_ids import DECISION_DAG as DECISION_DAG
from plumbline.declarations.dag_ids import RERUN_DAG as RERUN_DAG
from plumbline.declarations.dag_ids import REVIEW_DAG as REVIEW_DAG
from plumbline.declarations.dag_ids import UPKEEP_DAG
from plumbline.launch.plan import PlanError, RunRequest, planned_trials
from plumbline.launch.registry import launcher_for
from plumbline.metrics.formatting import unknown_name

CONNECTIONS_TASK = (UPKEEP_DAG, "connections")
"""The DAG and the task that asks the triggerer for its connections."""
Action = Literal["acknowledge", "accept", "reject", "resolve", "snooze", "rerun", "reopen", "claimed", "credited", "refused"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""A person's actions on a finding."""
ACCEPT, KEEP, RERUN = "accept as the new baseline", "keep the old one", "rerun on a fresh node"
MONTHLY_REASON = "monthly rerun"
UNSPECIFIED_CHANGE = "provider change reported in Airflow"
REASON_LIMIT = 500
"""Characters of a reason, as in the form."""
SLOT_TOLERANCE = timedelta(hours=2)


def paused_text(dag_id: str) -> str:
    """Why a run of a paused DAG is not started, and how to unpause it."""
    return f"{dag_id} is paused and its run would wait; unpause it in Airflow, or with `plumbline airflow dags unpause {dag_id}`"


class SlotMissed(Exception):
    """The slot's time has passed: a trial would be recorded under a time of day at which it did not run."""


class DagRunFields(Protocol):
    """The fields of Airflow's DAG run that planning needs."""

    dag_id: str
    run_id: str
    run_type: Any
    run_after: datetime


def run_parameters(
    run: DagRunFields,
    params: Mapping[str, Any],
    now: datetime,
    bundle_version: str | None = None,
    changes: Sequence[Mapping[str, Any]] = (),
    on_change: tuple[str, ...] | None = None,
) -> RunRequest:
    """The parameters of a DAG run.

    A scheduled run is one slot of the campaign of its month (`2026-11`). Any other run is a campaign of its own, named in the form or by
    its time (`od-20261120-234200`): two on-demand runs never share a natural key. A run started by events has their `changes` as its reason
    and measures the workloads `on_change`. SlotMissed for a scheduled run that starts more than SLOT_TOLERANCE after its slot, PlanError for a
    manual run without a reason and for a backfill, which would record today's measurement under a past month.
    """
    moment = run.run_after.astimezone(timezone.utc)
    kind = str(getattr(run.run_type, "value", run.run_type))
    origin = Origin(dag_id=run.dag_id, run_id=run.run_id, bundle_version=bundle_version)
    if kind == "scheduled":
        if now - moment > SLOT_TOLERANCE:
            raise SlotMissed(
                f"the slot {moment:%Y-%m-%d %H:%M} UTC has passed; trigger the DAG by hand to measure now, in a campaign of its own"
            )
        return RunRequest(f"{moment:%Y-%m}", MONTHLY_REASON, slot=f"{moment:%H:%M}", origin=origin)
    if kind == "backfill":
        raise PlanError("a backfill cannot measure the past; trigger the DAG by hand with a reason")
    if kind == "asset_triggered":
        return RunRequest(on_demand_campaign_id(moment), change_reason(changes), workloads=on_change, origin=origin)
    reason = (params.get("reason") or "").strip()
    if not reason:
        raise PlanError('an on-demand run needs a reason; fill in "reason" in the form, such as "driver upgrade on 12 November"')
    return RunRequest(
        campaign_id=params.get("campaign") or on_demand_campaign_id(moment),
        reason=reason,
        workloads=tuple(params.get("workloads") or ()) or None,
        kinds=tuple(params.get("kinds") or ()) or None,
        repeats=params.get("repeats"),
        placement=params.get("placement") or "any",
        nodes=params.get("nodes"),
        rounds=params.get("rounds"),
        origin=origin,
    )


def on_demand_campaign_id(now: datetime) -> str:
    return f"{now.astimezone(timezone.utc):od-%Y%m%d-%H%M%S}"


def change_reason(changes: Sequence[Mapping[str, Any]]) -> str:
    """The distinct reasons in one line, the newest last; an event from Airflow's API may have none."""
    reasons = dict.fromkeys(str(change.get("reason") or UNSPECIFIED_CHANGE) for change in changes or ({},))
    return "; ".join(reasons)[:REASON_LIMIT]


def declared_provider(declared: Declarations, name: str) -> Provider:
    """LookupError for an unknown name."""
    try:
        return declared.providers[name]
    except KeyError:
        raise LookupError(unknown_name("provider", name, declared.providers)) from None


POOL_DESCRIPTION = "Trials that must not disturb each other or exceed a quota. Created by Plumbline."


def dag_conf(request: RunRequest, trials: Sequence[Trial]) -> dict[str, Any]:
    """The values of the form of a provider's benchmark DAG, for these trials."""
    conf = {
        "campaign": request.campaign_id,
        "reason": request.reason,
        "workloads": sorted({t.workload.name for t in trials}),
        "kinds": sorted({t.workload.kind for t in trials}),
        "repeats": request.repeats,
    }
    conf |= {name: value for name in ("nodes", "rounds") if (value := getattr(request, name)) is not None}
    return conf if request.placement == "any" else {**conf, "placement": request.placement}


def pool_slots(providers: Iterable[Provider]) -> dict[str, int]:
    """Pool to its number of slots, by name."""
    slots: dict[str, int] = {}
    for provider in providers:
        slots[provider.pool] = max(slots.get(provider.pool, 1), provider.launcher.trials_at_a_time)
    return dict(sorted(slots.items()))


class RunsNotStarted(Exception):
    """Nothing was started; the message has the reason and the remedy, one line a provider."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of a provider's benchmark DAG; `conf`: the values of its form. `trials`: how many it plans; `left_out`: how many the budget skips;
    `budget`: the balance after them, None without a budget. `pool`: where its trials wait, with `slots`."""

    provider: str
    dag_id: str
    conf: dict[str, Any]
    trials: int
    left_out: int = 0
    budget: str | None = None
    pool: str = ""
    slots: int = 1


def plan_runs(declared: Declarations, request: RunRequest, providers: Sequence[str]) -> list[PlannedRun]:
    """The runs of one campaign on the providers; PlanError if something does not exist or fit, or without a reason."""
    if not request.reason.strip():
        raise PlanError('reason is empty; expected a few words that every result keeps, such as "driver upgrade on 12 November"')
    if (why := declared.why_no_trial_starts(datetime.now(timezone.utc))) is not None:
        raise PlanError(why)
    planned = planned_trials(declared, request, providers)
    if idle := sorted(set(providers) - set(planned)):
        raise PlanError(f"no requested workload runs on {', '.join(idle)}; `plumbline check` shows which ones do")
    slots = pool_slots(declared.enabled_providers())
    wanted = ((declared.providers[name], trials) for name, trials in planned.items())
    return [PlannedRun(p.name, p.dag_id, dag_conf(request, trials), len(trials), pool=p.pool, slots=slots[p.pool]) for p, trials in wanted]


@dataclass(frozen=True)
class TrialGroup:
    """Trials of one kind that are launched by one operator. `name` is the task group's."""

    name: str
    kind: str
    gang: bool = False

    def takes(self, workload: AnyWorkload) -> bool:
        return workload.kind == self.kind and (workload.nodes > 1) == self.gang

    def of(self, trials: list[Trial]) -> list[Trial]:
        """The trials of this lane, in the order of map indices."""
        return [trial for trial in trials if self.takes(trial.workload)]


TRAINING, INFERENCE = TrialGroup("training", "training"), TrialGroup("inference", "inference")
GANG = TrialGroup("training_gang", "training", gang=True)
TRIAL_GROUPS = {group.name: group for group in (TRAINING, INFERENCE, GANG)}


def trial_groups(declared: Declarations, provider: Provider) -> tuple[TrialGroup, ...]:
    """The provider's lanes; gangs only if a declared workload needs several nodes."""
    gangs = any(map(GANG.takes, declared.workloads_for(provider)))
    return (TRAINING, INFERENCE, *((GANG,) if gangs else ()))


def node_names(provider: Provider, request: RunRequest, now: datetime) -> tuple[str, ...] | None:
    """The nodes of a run on each node, by name; None of any other. PlanError if the provider has fewer than requested."""
    if request.placement != "each_node":
        return None
    names = launcher_for(provider).discover(provider, now).names
    if not names:
        raise PlanError(f"{provider.name} names no node that a trial could use now; expected a cluster that lists its nodes")
    if request.nodes is not None and request.nodes > len(names):
        raise PlanError(f"{provider.name} has {len(names)} nodes that a trial could use now; expected at most as many, or all")
    return names[: request.nodes]


@dataclass(frozen=True)
class RepeatRequest:
    """A person's request for repeats. `campaign`: whose results it replaces; `why`: their reason; `starts`: the DAG of the provider's benchmark."""

    provider: str
    workload: str
    kind: str
    repeats: int
    campaign: str
    why: str
    starts: str = ""

    dag_id = RERUN_DAG

    @property
    def key(self) -> str:
        """The start of the ids of runs that measure this: one until its results are there, whoever asks."""
        return f"repeats_{self.provider}_{self.workload}_{self.campaign}"

    def to_conf(self) -> dict[str, Any]:
        """The form of the DAG `rerun`."""
        return {
            "reason": f"next best experiment: {self.why}"[:REASON_LIMIT],
            "providers": [self.provider],
            "workloads": [self.workload],
            "kinds": [self.kind],
            "repeats": self.repeats,
        }
