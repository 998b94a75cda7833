"""What a run of a benchmark DAG is asked to measure: its monthly slot, or what a person or a program put into the form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Protocol

from plumbline.declarations import Declarations, Origin, Provider, SimulatedLauncher, Trial
from plumbline.launch.plan import PlanError, Request, declared_slots, plan

MONTHLY_REASON = "monthly rerun"
UNTOLD_REASON = "told in Airflow that the provider changed"
REASON_LIMIT = 500
"""Characters of a reason, as in the form."""
SLOT_TOLERANCE = timedelta(hours=2)
Placement = Literal["any", "fresh_node"]


class SlotMissed(Exception):
    """The slot's time has gone by: what is measured now would be filed under a time of day at which it was not measured."""


class Run(Protocol):
    """The part of Airflow's DAG run that matters here."""

    dag_id: str
    run_id: str
    run_type: Any
    run_after: datetime


@dataclass(frozen=True)
class Asked:
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


def asked_of(
    run: Run,
    params: Mapping[str, Any],
    now: datetime,
    bundle_version: str | None = None,
    changes: Sequence[Mapping[str, Any]] = (),
    on_change: tuple[str, ...] | None = None,
) -> Asked:
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
        return Asked(f"{moment:%Y-%m}", MONTHLY_REASON, slot=f"{moment:%H:%M}", origin=origin)
    if kind == "backfill":
        raise PlanError("a backfill cannot measure the past; trigger the DAG by hand and say why")
    if kind == "asset_triggered":
        return Asked(campaign_of(moment), reason_of(changes), workloads=on_change, origin=origin)
    reason = (params.get("reason") or "").strip()
    if not reason:
        raise PlanError('an on-demand run needs a reason; fill in "reason" in the form, such as "driver upgrade on 12 November"')
    return Asked(
        campaign_id=params.get("campaign") or campaign_of(moment),
        reason=reason,
        workloads=tuple(params.get("workloads") or ()) or None,
        kinds=tuple(params.get("kinds") or ()) or None,
        repeats=params.get("repeats"),
        placement=params.get("placement") or "any",
        origin=origin,
    )


def campaign_of(now: datetime) -> str:
    """The id of an on-demand campaign that begins now."""
    return f"{now.astimezone(timezone.utc):od-%Y%m%d-%H%M%S}"


def reason_of(changes: Sequence[Mapping[str, Any]]) -> str:
    """One line about what changed, the newest last; each change is told once. A person may tell Airflow of a change without saying which."""
    told = dict.fromkeys(str(change.get("reason") or UNTOLD_REASON) for change in changes or ({},))
    return "; ".join(told)[:REASON_LIMIT]


def trials_of(asked: Asked, declared: Declarations, provider: Provider, kind: str, planned_at: datetime) -> list[Trial]:
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
    if isinstance(provider.launcher, SimulatedLauncher):
        wanted = [w for w in wanted if not provider.launcher.silent(w.name, planned_at)]
    if not wanted:
        return []
    request = Request(
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
