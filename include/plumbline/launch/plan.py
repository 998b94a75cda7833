"""Plan a campaign: declarations and a run request become a list of trials, every hash fixed before anything runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Literal

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
from plumbline.declarations.purposes import is_monthly
from plumbline.declarations.teams import KINDS
from plumbline.declarations.workloads.prompts import FilePrompts
from plumbline.metrics.formatting import unknown_name

MAX_REPEATS = 50
Placement = Literal["any", "fresh_node", "each_node"]
_CAMPAIGN = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SLOT = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class PlanError(ValueError):
    """A request that cannot be run. The message names what was requested and what exists."""


@dataclass(frozen=True)
class RunRequest:
    """The workloads that a run measures, and the reason. `slot`: only this slot's repeats (a monthly run). None: all declared slots one after
    the other, each repeat under its slot's name, so that an on-demand campaign has the same blocks as its baseline.

    `workloads` None: all of the monthly rerun. `repeats` replaces the declared number. `placement` fresh_node: on nodes that the series did not
    use recently, which separates a bad node from a changed provider; each_node: one trial of each workload on every node, or on the first `nodes`;
    of a workload of two nodes on their pairs, in so many `rounds`.
    """

    campaign_id: str
    reason: str
    slot: str | None = None
    workloads: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    repeats: int | None = None
    placement: Placement = "any"
    nodes: int | None = None
    rounds: int | None = None
    origin: Origin | None = None


def plan(
    declared: Declarations, provider: Provider, request: RunRequest, planned_at: datetime, kinds: Sequence[str] = KINDS
) -> list[Trial]:
    """The trials of these kinds on one provider, by kind, slot, repeat and workload; empty if the request has none, or a simulated provider is
    silent then. PlanError if the request cannot be run."""
    _check(request, planned_at)
    named = None if request.workloads is None else [fitting_workload(declared, provider, name) for name in sorted(set(request.workloads))]
    trials: list[Trial] = []
    for kind in kinds:
        if request.kinds is not None and kind not in request.kinds:
            continue
        of_kind = declared.monthly_workloads(provider, kind, planned_at.month) if named is None else [w for w in named if w.kind == kind]
        slots = {w.name: [s for s in declared_slots(provider, w) if request.slot in (None, s)] for w in of_kind}
        chosen = [w for w in of_kind if slots[w.name] and not provider.launcher.skips(w.name, planned_at)]
        repeats = {w.name: request.repeats or w.repeats.per_slot for w in chosen}
        hashes = {w.name: _schedule_hash(w) for w in chosen}
        first = len(trials)
        for slot in sorted({slot for w in chosen for slot in slots[w.name]}):
            for repeat in range(1, max(repeats.values()) + 1):
                trials += [
                    _trial(declared, provider, w, request, planned_at, slot, repeat, hashes[w.name])
                    for w in chosen
                    if slot in slots[w.name] and repeat <= repeats[w.name]
                ]
        # A simulated provider has no instrument.
        if len(trials) > first and not provider.simulated:
            trials[first] = trials[first].model_copy(update={"selfcheck": True})
    return trials


def pairs_by_rounds(nodes: Sequence[str], rounds: int) -> list[tuple[str, str]]:
    """In each round each node with another one (of an odd number one waits), by the circle method: in n − 1 rounds, of an odd number n, each with
    each. The pairs of the first `rounds`, in their order."""
    ring: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    pairs = []
    for _ in range(min(rounds, len(ring) - 1)):
        facing = zip(ring[: len(ring) // 2], ring[: len(ring) // 2 - 1 : -1], strict=True)
        pairs += [(a, b) for a, b in facing if a is not None and b is not None]
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return pairs


def on_each_node(trials: list[Trial], nodes: Sequence[str] | None, rounds: int | None = None) -> list[Trial]:
    """One trial of each workload on each node, and with `rounds` of each workload of two nodes on each of their pairs, numbered by repeats; the same
    trials for `nodes` None. PlanError without a node, or for another workload of several nodes."""
    if nodes is None or not trials:
        return trials
    if not nodes:
        raise PlanError("placement each_node needs a provider with nodes that can be named: a cluster, this machine or a simulation")
    if gangs := sorted({t.workload.name for t in trials if t.workload.nodes > (1 if rounds is None else 2)}):
        raise PlanError(f"placement each_node runs one trial a node, but {', '.join(gangs)} needs several; expected workloads of one node")
    places: dict[int, Sequence[tuple[str, ...]]] = {1: [(node,) for node in nodes], 2: pairs_by_rounds(nodes, rounds or 0)}
    first = {t.workload.name: t for t in reversed(trials)}
    return [
        t.model_copy(
            update={
                "trial_id": trial_id(t.campaign_id, t.provider, t.workload, t.slot, number),
                "repeat": number,
                "placement": "each_node",
                "on_nodes": place,
                "selfcheck": t.selfcheck and number == 1,
            }
        )
        for t in sorted(first.values(), key=lambda t: t.workload.name)
        for number, place in enumerate(places[t.workload.nodes], start=1)
    ]


def single_trial(declared: Declarations, provider: Provider, workload: AnyWorkload, request: RunRequest, planned_at: datetime) -> Trial:
    """One trial of a workload that fits, in the first declared slot; it checks the instrument."""
    _check(request, planned_at)
    slot = declared_slots(provider, workload)[0]
    trial = _trial(declared, provider, workload, request, planned_at, slot, 1, _schedule_hash(workload))
    return trial.model_copy(update={"selfcheck": not provider.simulated})


def planned_trials(
    declared: Declarations, request: RunRequest, providers: Sequence[str] | None = None, *, planned_at: datetime | None = None
) -> dict[str, list[Trial]]:
    """The trials of a campaign by provider, of all enabled ones if none is named; PlanError if there are none, or a name is unknown.

    Each provider runs the named workloads that fit it. `planned_at`: now if None.
    """
    chosen = [enabled_provider(declared, name) for name in sorted(set(providers))] if providers else declared.enabled_providers()
    for name in request.workloads or ():
        if name not in declared.workloads:
            raise PlanError(unknown_name("workload", name, declared.workloads))
    planned, now = {}, planned_at or datetime.now(timezone.utc)
    for provider in chosen:
        fitting = {w.name for w in declared.workloads_for(provider)}
        wanted = None if request.workloads is None else tuple(w for w in request.workloads if w in fitting)
        if trials := plan(declared, provider, replace(request, workloads=wanted), now):
            planned[provider.name] = trials
    if request.placement == "fresh_node" and (fixed := [p.name for p in chosen if p.name in planned and not p.launcher.chooses_nodes]):
        raise PlanError(f"placement fresh_node needs providers on clusters; {', '.join(fixed)} has one place only")
    if not planned:
        misfits = [
            f"{w} on {p.name}: {incompatibility(declared.workloads[w], p)}"
            for w in request.workloads or ()
            for p in chosen
            if incompatibility(declared.workloads[w], p)
        ]
        why = "".join(f"; {text}" for text in misfits)
        raise PlanError(f"nothing to run: no enabled provider fits the request; `plumbline check` shows what runs where{why}")
    return planned


def enabled_provider(declared: Declarations, name: str) -> Provider:
    """The provider of that name; PlanError for an unknown or disabled one."""
    enabled = [p.name for p in declared.enabled_providers()]
    if name not in declared.providers:
        raise PlanError(unknown_name("enabled provider", name, enabled))
    if name not in enabled:
        raise PlanError(
            f'provider "{name}" is disabled; set `enabled: true` in its declaration, or name one of {", ".join(enabled) or "(none)"}'
        )
    return declared.providers[name]


def fitting_workload(declared: Declarations, provider: Provider, name: str) -> AnyWorkload:
    """The workload of that name; PlanError for an unknown one, or one that does not fit the provider."""
    if name not in declared.workloads:
        raise PlanError(unknown_name("workload", name, declared.workloads))
    workload = declared.workloads[name]
    if (why := incompatibility(workload, provider)) is not None:
        raise PlanError(f'workload "{name}" does not fit provider "{provider.name}": {why}')
    return workload


def _trial(
    declared: Declarations,
    provider: Provider,
    workload: AnyWorkload,
    request: RunRequest,
    planned_at: datetime,
    slot: str,
    repeat: int,
    schedule_hash: str | None,
) -> Trial:
    return Trial(
        trial_id=trial_id(request.campaign_id, provider, workload, slot, repeat),
        campaign_id=request.campaign_id,
        reason=request.reason.strip(),
        planned_at=planned_at,
        provider=provider.of_trial(),
        workload=workload.of_trial(),
        validity=declared.thresholds.validity,
        slot=slot,
        repeat=repeat,
        series_key=series_key(workload, provider),
        spec_hash=spec_hash(workload),
        criteria_hash=criteria_hash(workload, declared.thresholds.validity),
        schedule_hash=schedule_hash,
        origin=request.origin,
    )


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
    if request.placement == "each_node" and is_monthly(request.campaign_id):
        raise PlanError(
            f"campaign {request.campaign_id} is the month's rerun; a run on each node needs another name, such as accept-20261120"
        )
    if not request.reason.strip():
        raise PlanError(f"campaign {request.campaign_id} has no reason; expected a few words")
    if planned_at.utcoffset() is None:
        raise PlanError(f"planned_at {planned_at.isoformat()} has no time zone; expected an aware time, such as one in UTC")
    for kind in request.kinds or ():
        if kind not in KINDS:
            raise PlanError(f'unknown kind "{kind}"; expected {" or ".join(KINDS)}')
    if request.slot is not None and not _SLOT.fullmatch(request.slot):
        raise PlanError(f'slot "{request.slot}" is invalid; expected a time of day in UTC such as 02:00')
    if request.repeats is not None and not 1 <= request.repeats <= MAX_REPEATS:
        raise PlanError(f"repeats {request.repeats} is out of range; expected 1 to {MAX_REPEATS}")


def _schedule_hash(workload: AnyWorkload) -> str | None:
    if (served := workload.serving) is None:
        return None
    # NumPy stays out of the parse of DAG files, which import this module.
    from plumbline.harness.inference.load.schedule import schedule_of

    try:
        hashed = schedule_of(served).sha256
    except ValueError as error:
        raise PlanError(f'workload "{workload.name}" has no arrival schedule: {error}') from error
    _check_prompts(served)
    return hashed


def _check_prompts(workload: InferenceWorkload) -> None:
    """PlanError if the workload's own prompts are here and its model cannot read them."""
    prompts = workload.requests.prompts
    if not isinstance(prompts, FilePrompts):
        return
    from plumbline.harness.inference.load.own_prompts import OwnPrompts, selected_rows
    from plumbline.harness.inference.load.served_tokenizer import tokenizer_of

    tokenizer = tokenizer_of(workload, None)
    if tokenizer is None:
        return
    try:
        OwnPrompts(workload, selected_rows(prompts), tokenizer).check()
    except ValueError as error:
        raise PlanError(f'workload "{workload.name}" has prompts that its model cannot be sent: {error}') from error


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
    trials: list[Trial] = []
    request = RunRequest(_TYPICAL_CAMPAIGN, "examines what a trial needs")
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
        trials += [single_trial(declared, here, workload, request, now) for workload in candidates]
    return trials


def _whole_node_variant(workload: AnyWorkload, provider: Provider) -> AnyWorkload:
    has = provider.accelerator
    needs = workload.needs.model_copy(update={"accelerator": has.kind, "count": has.count})
    return workload.model_copy(update={"needs": needs, "providers": None})
