"""Plan a benchmark run: the trials of a monthly slot, of a form or of a command; their task groups, pools and DAG runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Protocol

from plumbline.declarations import Declarations, Origin, Provider, Trial
from plumbline.declarations.loader import AnyWorkload
from plumbline.launch.plan import KINDS, PlanError, RunRequest, declared_slots, plan

DECISION_DAG = "baseline_decision"
ACCEPT, KEEP, RERUN = "accept as the new baseline", "keep the old one", "rerun on a fresh node"
"""Answers to the question of that DAG."""
MONTHLY_REASON = "monthly rerun"
UNSPECIFIED_CHANGE = "told in Airflow that the provider changed"
REASON_LIMIT = 500
"""Characters of a reason, as in the form."""
SLOT_TOLERANCE = timedelta(hours=2)
Placement = Literal["any", "fresh_node"]


class SlotMissed(Exception):
    """The slot's time has gone by: what is measured now would be filed under a time of day at which it was not measured."""


class DagRunFields(Protocol):
    """The part of Airflow's DAG run that matters here."""

    dag_id: str
    run_id: str
    run_type: Any
    run_after: datetime


@dataclass(frozen=True)
class RunParameters:
    """`slot`: only this slot's repeats (a monthly run). None: all declared slots one after the other, each repeat under its slot's name,
    so that an on-demand campaign has the same blocks as the baseline that it is compared with.

    `workloads` None: everything that the monthly rerun runs. `placement` fresh_node: on nodes that the series was not measured on lately,
    which tells a bad node from a changed provider.
    """

    campaign_id: str
    reason: str
    slot: str | None = None
    workloads: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    repeats: int | None = None
    placement: Placement = "any"
    origin: Origin | None = None


def run_parameters(
    run: DagRunFields,
    params: Mapping[str, Any],
    now: datetime,
    bundle_version: str | None = None,
    changes: Sequence[Mapping[str, Any]] = (),
    on_change: tuple[str, ...] | None = None,
) -> RunParameters:
    """What this run asks for.

    A scheduled run is one slot of the campaign of its month (`2026-11`). Any other run is a campaign of its own, named in the form or by
    its time (`od-20261120-234200`): two on-demand runs never share a natural key. One that the provider's own change started has that
    change as its reason, by the events that started it (`changes`), and measures the workloads `on_change`. Raises SlotMissed for a scheduled run that starts more
    than SLOT_TOLERANCE after its slot, PlanError for a manual run without a reason and for a backfill, which would file today's
    measurement under a past month.
    """
    moment = run.run_after.astimezone(timezone.utc)
    kind = str(getattr(run.run_type, "value", run.run_type))
    origin = Origin(dag_id=run.dag_id, run_id=run.run_id, bundle_version=bundle_version)
    if kind == "scheduled":
        if now - moment > SLOT_TOLERANCE:
            raise SlotMissed(
                f"the slot {moment:%Y-%m-%d %H:%M} UTC is over; trigger the DAG by hand to measure now, under its own campaign"
            )
        return RunParameters(f"{moment:%Y-%m}", MONTHLY_REASON, slot=f"{moment:%H:%M}", origin=origin)
    if kind == "backfill":
        raise PlanError("a backfill cannot measure the past; trigger the DAG by hand and say why")
    if kind == "asset_triggered":
        return RunParameters(on_demand_campaign_id(moment), change_reason(changes), workloads=on_change, origin=origin)
    reason = (params.get("reason") or "").strip()
    if not reason:
        raise PlanError('an on-demand run needs a reason; fill in "reason" in the form, such as "driver upgrade on 12 November"')
    return RunParameters(
        campaign_id=params.get("campaign") or on_demand_campaign_id(moment),
        reason=reason,
        workloads=tuple(params.get("workloads") or ()) or None,
        kinds=tuple(params.get("kinds") or ()) or None,
        repeats=params.get("repeats"),
        placement=params.get("placement") or "any",
        origin=origin,
    )


def on_demand_campaign_id(now: datetime) -> str:
    """The id of an on-demand campaign that begins now."""
    return f"{now.astimezone(timezone.utc):od-%Y%m%d-%H%M%S}"


def change_reason(changes: Sequence[Mapping[str, Any]]) -> str:
    """One line about what changed, the newest last; each change is told once. A person may tell Airflow of a change without saying which."""
    told = dict.fromkeys(str(change.get("reason") or UNSPECIFIED_CHANGE) for change in changes or ({},))
    return "; ".join(told)[:REASON_LIMIT]


def trials_of(asked: RunParameters, declared: Declarations, provider: Provider, kind: str, planned_at: datetime) -> list[Trial]:
    """The trials of one kind on one provider that answer `asked`; empty if nothing of this kind was asked for, or if a simulated
    provider is silent then. Raises PlanError."""
    if asked.kinds is not None and kind not in asked.kinds:
        return []
    fitting = {w.name: w for w in declared.workloads_for(provider, kind)}
    unknown = set(asked.workloads or ()) - {w.name for w in declared.workloads_for(provider)}
    if unknown:
        raise PlanError(
            f"{', '.join(sorted(unknown))}: no such workload runs on {provider.name}; "
            f"expected some of {', '.join(w.name for w in declared.workloads_for(provider)) or '(none)'}"
        )
    wanted = (
        [w for w in fitting.values() if w.name in asked.workloads]
        if asked.workloads is not None
        else list(declared.monthly_workloads(provider, kind))
    )
    if asked.slot is not None:
        wanted = [w for w in wanted if asked.slot in declared_slots(provider, w)]
    wanted = [w for w in wanted if not provider.launcher.skips(w.name, planned_at)]
    if not wanted:
        return []
    request = RunRequest(
        campaign_id=asked.campaign_id,
        reason=asked.reason,
        providers=(provider.name,),
        workloads=tuple(w.name for w in wanted),
        kinds=(kind,),
        slots=(asked.slot,) if asked.slot else None,
        repeats=asked.repeats,
        origin=asked.origin,
    )
    return plan(declared, request, planned_at)


POOL_DESCRIPTION = "trials that must not measure each other, or exceed a quota; made by Plumbline"


def planned_trials(declared: Declarations, asked: RunParameters, providers: Sequence[str] | None = None) -> dict[str, list[Trial]]:
    """The trials that a campaign will run, by provider; PlanError if that is none, or if something asked for does not exist.

    Nothing starts: call it first, so that a bad request is told before Airflow is.
    """
    known = {p.name: p for p in declared.enabled_providers()}
    unknown = sorted(set(providers or ()) - set(known))
    if unknown:
        raise PlanError(f"no enabled provider is called {', '.join(unknown)}; expected some of {', '.join(known) or '(none enabled)'}")
    now = datetime.now(timezone.utc)
    every = {w for w in asked.workloads or () if w not in declared.workloads}
    if every:
        raise PlanError(f"no workload is called {', '.join(sorted(every))}; declared: {', '.join(sorted(declared.workloads))}")
    found = {}
    for name in sorted(set(providers)) if providers else known:
        fitting = {w.name for w in declared.workloads_for(known[name])}
        wanted = tuple(w for w in asked.workloads if w in fitting) if asked.workloads is not None else None
        mine = replace(asked, workloads=wanted)
        trials = [t for kind in KINDS for t in trials_of(mine, declared, known[name], kind, now)]
        if trials:
            found[name] = trials
    if asked.placement == "fresh_node" and (fixed := [n for n in found if not known[n].launcher.runs_pods]):
        raise PlanError(f"{', '.join(fixed)} has no other node to run on; expected providers on clusters for the placement fresh_node")
    if not found:
        raise PlanError("nothing to run: no enabled provider fits what was asked for; `plumbline check` shows what would run where")
    return found


def dag_conf(asked: RunParameters, trials: Sequence[Trial]) -> dict[str, Any]:
    """What the form of a provider's benchmark DAG takes, for these trials of one provider."""
    conf = {
        "campaign": asked.campaign_id,
        "reason": asked.reason,
        "workloads": sorted({t.workload.name for t in trials}),
        "kinds": sorted({t.workload.kind for t in trials}),
        "repeats": asked.repeats,
    }
    return conf if asked.placement == "any" else {**conf, "placement": asked.placement}


def pool_slots(providers: Iterable[Provider]) -> dict[str, int]:
    """Pool to its number of slots, by name."""
    slots: dict[str, int] = {}
    for provider in providers:
        slots[provider.pool] = max(slots.get(provider.pool, 1), provider.launcher.trials_at_a_time)
    return dict(sorted(slots.items()))


class RunsNotStarted(Exception):
    """Nothing was started; the message says why, one line a provider, and what to do."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of a provider's benchmark DAG: `conf` is what its form takes. `trials`: how many it will plan, `left_out` how many more the
    budget does not carry; `budget`: what is left of that after them, in words, None without one. `pool`: where its trials wait, with `slots`."""

    provider: str
    dag_id: str
    conf: dict[str, Any]
    trials: int
    left_out: int = 0
    budget: str | None = None
    pool: str = ""
    slots: int = 1


def plan_runs(declared: Declarations, asked: RunParameters, providers: Sequence[str]) -> list[PlannedRun]:
    """What answers `asked` on the providers, one campaign; PlanError if something does not exist or fit, or without a reason."""
    if not asked.reason.strip():
        raise PlanError('no reason was given; expected a few words that stay with every result, such as "driver upgrade on 12 November"')
    planned = planned_trials(declared, asked, providers)
    if idle := sorted(set(providers) - set(planned)):
        raise PlanError(
            f"nothing of what was asked for runs on {', '.join(idle)}; expected workloads that do: `plumbline check` shows them"
        )
    slots = pool_slots(declared.enabled_providers())
    wanted = ((declared.providers[name], trials) for name, trials in planned.items())
    return [PlannedRun(p.name, p.dag_id, dag_conf(asked, trials), len(trials), pool=p.pool, slots=slots[p.pool]) for p, trials in wanted]


@dataclass(frozen=True)
class TrialGroup:
    """Trials of one kind that are launched by one operator. `name` is the task group's."""

    name: str
    kind: str
    gang: bool = False

    def takes(self, workload: AnyWorkload) -> bool:
        """Whether trials of the workload run in this lane."""
        return workload.kind == self.kind and (workload.nodes > 1) == self.gang

    def of(self, trials: list[Trial]) -> list[Trial]:
        """Those of the trials that run in this lane, in their order: a task's map index counts them."""
        return [trial for trial in trials if self.takes(trial.workload)]


TRAINING, INFERENCE = TrialGroup("training", "training"), TrialGroup("inference", "inference")
GANG = TrialGroup("training_gang", "training", gang=True)
TRIAL_GROUPS = {lane.name: lane for lane in (TRAINING, INFERENCE, GANG)}


def trial_groups(declared: Declarations, provider: Provider) -> tuple[TrialGroup, ...]:
    """The provider's lanes; the one for gangs only where a declared workload needs several nodes of it."""
    gangs = any(GANG.takes(workload) for workload in declared.workloads_for(provider))
    return (TRAINING, INFERENCE, GANG) if gangs else (TRAINING, INFERENCE)
