"""Plan a campaign: declarations and a run request become a list of trials, every hash fixed before anything runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

from plumbline.declarations import (
    AnyWorkload,
    Declarations,
    InferenceWorkload,
    Origin,
    Provider,
    Trial,
    criteria_hash,
    incompatibility,
    series_key,
    spec_hash,
    trial_id,
)
from plumbline.declarations.teams import KINDS
from plumbline.declarations.workloads.prompts import FilePrompts
from plumbline.launch import PlanError
from plumbline.metrics.formatting import unknown_name

__all__ = ["PlanError", "RunRequest", "declared_slots", "next_slot", "plan"]

_T = TypeVar("_T")
MAX_REPEATS = 50
_CAMPAIGN = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SLOT = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True)
class RunRequest:
    """None means all that is declared. `slots` and `repeats` replace the declared ones. Without `workloads` each provider runs its monthly ones."""

    campaign_id: str
    reason: str
    providers: Sequence[str] | None = None
    workloads: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    slots: Sequence[str] | None = None
    repeats: int | None = None
    origin: Origin | None = None


def plan(declarations: Declarations, request: RunRequest, planned_at: datetime) -> list[Trial]:
    """The requested trials, ordered by slot, then repeat, then provider and workload. Pure. PlanError if the request cannot be run.

    Repeats are interleaved over providers, so that a slow hour affects all of them.
    """
    _check(request, planned_at)
    pairs = _pairs(declarations, request)
    schedules = {name: _schedule_hash(w) for name, w in {w.name: w for _, w in pairs}.items()}
    trials = []
    # A simulated provider has no instrument.
    unchecked = {provider.name for provider, _ in pairs if not provider.simulated}
    slots = {(p.name, w.name): tuple(request.slots or declared_slots(p, w)) for p, w in pairs}
    for slot in sorted({slot for several in slots.values() for slot in several}):
        for repeat in range(1, max(_repeats(request, w) for _, w in pairs) + 1):
            for provider, workload in pairs:
                if slot not in slots[provider.name, workload.name] or repeat > _repeats(request, workload):
                    continue
                trials.append(
                    Trial(
                        trial_id=trial_id(request.campaign_id, provider, workload, slot, repeat),
                        campaign_id=request.campaign_id,
                        reason=request.reason.strip(),
                        planned_at=planned_at,
                        provider=provider.of_trial(),
                        workload=workload.of_trial(),
                        validity=declarations.thresholds.validity,
                        slot=slot,
                        repeat=repeat,
                        series_key=series_key(workload, provider),
                        spec_hash=spec_hash(workload),
                        criteria_hash=criteria_hash(workload, declarations.thresholds.validity),
                        schedule_hash=schedules[workload.name],
                        selfcheck=provider.name in unchecked,
                        origin=request.origin,
                    )
                )
                unchecked.discard(provider.name)
    return trials


def declared_slots(provider: Provider, workload: AnyWorkload) -> tuple[str, ...]:
    """The times of day (UTC) on which the workload is measured on the provider: the provider's own slots, else the workload's."""
    return provider.slots or workload.repeats.slots


MONTHLY_DAY = 1
"""Day of the month on which the slots of a monthly rerun begin."""


def next_slot(declared: Declarations, now: datetime) -> tuple[datetime, tuple[str, ...]] | None:
    """When the next slot of the monthly rerun begins (UTC), and the enabled providers that it measures; None where none is planned."""
    by_time: dict[datetime, set[str]] = {}
    this_month = now.astimezone(timezone.utc).replace(day=MONTHLY_DAY, second=0, microsecond=0)
    following = (this_month + timedelta(days=31)).replace(day=MONTHLY_DAY)
    for provider in declared.enabled_providers():
        for slot in {slot for w in declared.monthly_workloads(provider) for slot in declared_slots(provider, w)}:
            hour, minute = (int(part) for part in slot.split(":"))
            at = next(t for month in (this_month, following) if (t := month.replace(hour=hour, minute=minute)) > now)
            by_time.setdefault(at, set()).add(provider.name)
    return min((at, tuple(sorted(names))) for at, names in by_time.items()) if by_time else None


def _check(request: RunRequest, planned_at: datetime) -> None:
    if not _CAMPAIGN.fullmatch(request.campaign_id):
        raise PlanError(
            f'campaign id "{request.campaign_id}" is invalid; expected lower-case letters, digits, dots and dashes, such as 2026-11 (at most 63)'
        )
    if not request.reason.strip():
        raise PlanError(f"campaign {request.campaign_id} has no reason; expected a few words")
    if planned_at.utcoffset() is None:
        raise PlanError(f"planned_at {planned_at.isoformat()} has no time zone; expected an aware time, such as one in UTC")
    for kind in request.kinds or ():
        if kind not in KINDS:
            raise PlanError(f'unknown kind "{kind}"; expected {" or ".join(KINDS)}')
    for slot in request.slots or ():
        if not _SLOT.fullmatch(slot):
            raise PlanError(f'slot "{slot}" is invalid; expected a time of day in UTC such as 02:00')
    if request.repeats is not None and not 1 <= request.repeats <= MAX_REPEATS:
        raise PlanError(f"repeats {request.repeats} is out of range; expected 1 to {MAX_REPEATS}")
    for field in ("providers", "workloads", "kinds", "slots"):
        if getattr(request, field) is not None and not getattr(request, field):
            raise PlanError(f"{field} is empty and would run nothing; omit it for all {field}")


def _pairs(declarations: Declarations, request: RunRequest) -> list[tuple[Provider, AnyWorkload]]:
    providers = _providers(declarations, request)
    named = _workloads(declarations, request)
    kinds = tuple(request.kinds or KINDS)
    pairs: list[tuple[Provider, AnyWorkload]] = []
    for provider in providers:
        fitting = {w.name: w for w in declarations.workloads_for(provider)}
        chosen = named or declarations.monthly_workloads(provider)
        for workload in chosen:
            if workload.name in fitting:
                pairs += [(provider, workload)] if workload.kind in kinds else []
            elif request.providers is not None:
                raise PlanError(_misfit(provider, workload))
    if named and request.providers is None:
        for workload in named:
            if not any(workload in declarations.workloads_for(provider) for provider in providers):
                raise PlanError(
                    f'workload "{workload.name}" fits none of the enabled providers: '
                    + "; ".join(f"{provider.name}: {incompatibility(workload, provider)}" for provider in providers)
                )
    if not pairs:
        raise PlanError(
            f"nothing to run: no {' or '.join(kinds)} trial of {_count_words('workload', named) if named else 'any declared workload'} on "
            f"{_count_words('provider', providers)}; declared workloads: {_list(_described(w) for w in declarations.workloads.values())}"
        )
    return pairs


def _providers(declarations: Declarations, request: RunRequest) -> list[Provider]:
    if request.providers is None:
        providers = list(declarations.enabled_providers())
        if not providers:
            raise PlanError(f"no provider is enabled; declared: {_list(declarations.providers)}")
    else:
        providers = [_lookup(declarations.providers, name, "provider") for name in sorted(set(request.providers))]
    for provider in providers:
        if not provider.enabled:
            raise PlanError(
                f'provider "{provider.name}" is disabled; set `enabled: true` in its declaration, '
                f"or name one of {_list(p.name for p in declarations.enabled_providers())}"
            )
    return providers


def _workloads(declarations: Declarations, request: RunRequest) -> list[AnyWorkload]:
    """The named workloads; none if the declarations choose."""
    return [_lookup(declarations.workloads, name, "workload") for name in sorted(set(request.workloads or ()))]


def _lookup(known: dict[str, _T], name: str, what: str) -> _T:
    if name not in known:
        raise PlanError(unknown_name(what, name, known))
    return known[name]


def _misfit(provider: Provider, workload: AnyWorkload) -> str:
    return f'workload "{workload.name}" does not fit provider "{provider.name}": {incompatibility(workload, provider)}'


def _repeats(request: RunRequest, workload: AnyWorkload) -> int:
    return request.repeats or workload.repeats.per_slot


def _schedule_hash(workload: AnyWorkload) -> str | None:
    if not isinstance(workload, InferenceWorkload):
        return None
    # NumPy stays out of the parse of DAG files, which import this module.
    from plumbline.harness.inference.load.schedule import schedule_of

    try:
        hashed = schedule_of(workload).sha256
    except ValueError as error:
        raise PlanError(f'workload "{workload.name}" has no arrival schedule: {error}') from error
    _check_prompts(workload)
    return hashed


def _check_prompts(workload: InferenceWorkload) -> None:
    """Own prompts, if they and the tokenizer are here: nothing is started for prompts that the model cannot read."""
    prompts = workload.requests.prompts
    if not isinstance(prompts, FilePrompts):
        return
    from plumbline.harness.inference.load.own_prompts import OwnPrompts, selected_rows
    from plumbline.harness.inference.load.served_tokenizer import tokenizer_of

    tokenizer = tokenizer_of(workload, None)
    if tokenizer is None:
        return
    try:
        OwnPrompts(workload, selected_rows(prompts, Path()), tokenizer).check()
    except ValueError as error:
        raise PlanError(f'workload "{workload.name}" has prompts that its model cannot be sent: {error}') from error


def _count_words(what: str, items: Collection[Provider | AnyWorkload]) -> str:
    return f"{what}{'s' if len(items) != 1 else ''} {_list(item.name for item in items)}"


def _described(workload: AnyWorkload) -> str:
    return f"{workload.name} ({workload.kind}{', on demand only' if workload.on_demand_only else ''})"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"


_TYPICAL_CAMPAIGN = "doctor"


def typical_trials(declared: Declarations, provider: Provider, now: datetime) -> list[Trial]:
    """The largest of `possible_trials` of each kind."""
    largest: dict[str, Trial] = {}
    for trial in possible_trials(declared, provider, now):
        if (other := largest.get(trial.workload.kind)) is None or _accelerators(trial) > _accelerators(other):
            largest[trial.workload.kind] = trial
    return list(largest.values())


def _accelerators(trial: Trial) -> tuple[int, int]:
    return trial.workload.nodes, trial.workload.gpus or trial.provider.accelerator.count


def possible_trials(declared: Declarations, provider: Provider, now: datetime) -> list[Trial]:
    """Each workload that fits and that the provider has an image for, as one trial each.

    Where none of a kind fits, as on a new provider, any workload of the kind replaces it, on all accelerators of one node.
    """
    trials = []
    here = provider.model_copy(update={"enabled": True})
    for kind in KINDS:
        if provider.launcher.image_for(kind) is None:
            continue
        named = provider.workloads or ()
        candidates = [w for w in declared.workloads_for(provider, kind) if w.nodes <= provider.nodes_of_a_trial or w.name in named] or [
            other
            for w in declared.workloads.values()
            if w.kind == kind
            and w.nodes <= provider.nodes_of_a_trial
            and incompatibility(other := _whole_node_variant(w, provider), provider) is None
        ]
        for workload in candidates:
            world = Declarations({here.name: here}, {workload.name: workload}, {}, declared.thresholds)
            request = RunRequest(_TYPICAL_CAMPAIGN, "examines what a trial needs", workloads=[workload.name], repeats=1)
            trials.append(plan(world, request, now)[0])
    return trials


def _whole_node_variant(workload: AnyWorkload, provider: Provider) -> AnyWorkload:
    has = provider.accelerator
    needs = workload.needs.model_copy(update={"accelerator": has.kind, "count": has.count})
    return workload.model_copy(update={"needs": needs, "providers": None})
