"""Launch success, lead time and capacity of one provider, against what its contract promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plumbline.analysis.scorecards.pooling import PooledMetric, pool_measurements
from plumbline.analysis.scorecards.promises import PromisedShare, judge_share
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Provider
from plumbline.declarations.providers.provider import ServiceLevel
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.results.launch_record import GANG_NODES, gang_metric

NOT_STARTED = frozenset({"insufficient_capacity", "wrong_hardware"})
"""Failure classes in which the provider, as is proven, did not deliver what was asked."""
PROVIDER_FAULTS = NOT_STARTED | {"provider_fault"}
"""Failure classes whose cause is proven to be the provider's. A provider_fault comes after the start: its launch succeeded."""
OPERATOR_FAULTS = frozenset({"bad_declaration", "image_error", "quota_exceeded"})
"""Failure classes that are no launch of the provider's: what was asked for was wrong, or more than was agreed."""
UNPROVEN = frozenset({"launch_timeout", "unreachable"})
"""Failure classes whose cause may be ours or the provider's: a slow registry, an expired token, a network. No verdict rests on them."""


def provider_launches(trials: Sequence[TrialSample]) -> tuple[TrialSample, ...]:
    """Attempts that were launches of the provider's. Missing trials were not seen to launch or to fail; what failed by our fault is none, and
    what failed for an unproven cause is counted apart."""
    return tuple(t for t in trials if t.status != "missing" and t.failure_class not in OPERATOR_FAULTS | UNPROVEN)


def launch_share(ended: Mapping[str | None, int]) -> Proportion:
    """Launches that started of those that did or that failed by the provider. `ended`: failure class → attempts, None for those that did not
    fail."""
    tried = sum(n for cause, n in ended.items() if cause not in OPERATOR_FAULTS | UNPROVEN)
    return wilson_interval(tried - sum(n for cause, n in ended.items() if cause in NOT_STARTED), tried)


def launch_success(ended: Mapping[str | None, int], promised: float | None) -> PromisedShare:
    """Launch success against what the contract promises; `ended` as of `launch_share`."""
    return judge_share(launch_share(ended), promised, sum(n for cause, n in ended.items() if cause in UNPROVEN))


def capacity_kept(ended: Mapping[str | None, int], promised: float | None) -> PromisedShare:
    """Launches that got the nodes they asked for, of those of `launch_share`; a gang's nodes come together, so that a launch is one try."""
    tried = launch_share(ended).n
    return judge_share(wilson_interval(tried - ended.get("insufficient_capacity", 0), tried), promised)


PHASE = "cold_start"
"""The phase that the outside's view of a launch belongs to."""

_NO_POD = {
    "local": "a process on this machine is started: there is no pod",
    "simulated": "the simulation has no pods",
    "endpoint": "the endpoint's server already runs",
}


@dataclass(frozen=True)
class LeadTime:
    """Times from the request for a trial to its running process (of a gang: the last pod's), in seconds, against what the contract promises.

    `kept`: launches within `promised_s`, against the share of launches that the contract promises it for. Launches that never ran have no lead
    time: launch success counts them.
    """

    time: PooledMetric
    promised_s: float | None
    kept: PromisedShare


@dataclass(frozen=True)
class Friction:
    """`manual_steps`: what a person must do first, as declared; () says nothing, None that nobody declared it."""

    lead_time: LeadTime
    pod_scheduling: PooledMetric
    image_pull: PooledMetric
    launch: PromisedShare
    manual_steps: tuple[str, ...] | None


def friction(trials: Sequence[TrialSample], provider: Provider | None) -> Friction:
    """The friction of every attempt of one provider's trials. `provider` None: it is not declared, so nothing is promised.

    Pure. A retry is a launch of its own; a trial that failed after it had started was launched all the same.
    """
    sla = provider.sla if provider is not None else ServiceLevel()
    return Friction(
        lead_time=judge_lead_time(lead_time_of(trials, provider), sla),
        pod_scheduling=_of_pods(trials, "pod_scheduling_time", provider),
        image_pull=_of_pods(trials, "image_pull_time", provider),
        launch=launch_success(Counter(t.failure_class for t in trials if t.status != "missing"), sla.launch_success),
        manual_steps=provider.manual_steps if provider is not None else None,
    )


def lead_time_of(trials: Sequence[TrialSample], provider: Provider | None) -> PooledMetric:
    """Lead times of all launches that ran; None with the reason where nothing is provisioned or nobody measured it."""
    if provider is not None and (reason := provider.launcher.not_provisioned) is not None:
        return pool_measurements("provisioning_lead_time", (), reason)
    return pool_measurements("provisioning_lead_time", _values(trials, "provisioning_lead_time"), _unmeasured(trials))


def judge_lead_time(time: PooledMetric, sla: ServiceLevel) -> LeadTime:
    """The lead times of launches against the promised one."""
    promised = sla.provisioning_lead_time
    if promised is None:
        return LeadTime(time, None, judge_share(wilson_interval(0, 0), None))
    kept = wilson_interval(sum(value <= promised for value in time.values), time.n)
    return LeadTime(time, promised, judge_share(kept, sla.lead_time_share))


def _of_pods(trials: Sequence[TrialSample], metric: str, provider: Provider | None) -> PooledMetric:
    seconds = _values(trials, metric)
    reason = _NO_POD.get(provider.launcher.kind) if provider is not None else None
    if reason is None:
        scheduled = metric == "image_pull_time" and _values(trials, "pod_scheduling_time")
        reason = "no image pull observed: the nodes had the image or did not report it" if scheduled else _unmeasured(trials)
    return pool_measurements(metric, seconds, reason)


def _values(trials: Sequence[TrialSample], metric: str) -> list[tuple[str, float]]:
    return [(t.trial_id, value) for t in provider_launches(trials) if (value := t.value(metric, "value", PHASE)) is not None]


def _unmeasured(trials: Sequence[TrialSample]) -> str:
    return "no launch was observed" if provider_launches(trials) else "nothing was launched"


@dataclass(frozen=True)
class ScaleTime:
    """Seconds from the request to the last of `nodes` running pods; within gangs, from the first pod's creation until `nodes` were ready."""

    nodes: int
    time: PooledMetric


@dataclass(frozen=True)
class Shortage:
    """How often launches in one slot of the day (UTC) were refused for want of capacity; `trials` are those that were."""

    slot: str
    refused: Proportion
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Capacity:
    """`scale` by rising number of nodes, as launches asked for them; `gang` as they came one after the other within gangs; `shortage` by slot,
    `refused` over all slots. `reason` says what was not measured, if anything."""

    scale: tuple[ScaleTime, ...]
    gang: tuple[ScaleTime, ...]
    shortage: tuple[Shortage, ...]
    refused: Proportion
    reason: str = ""


def capacity(trials: Sequence[TrialSample], provider: Provider | None) -> Capacity:
    """The capacity that all launches of one provider show, whatever they were launched for. Pure."""
    scale = tuple(
        ScaleTime(nodes, lead_time_of([t for t in trials if t.nodes == nodes], provider))
        for nodes in sorted({t.nodes for t in provider_launches(trials)})
    )
    gang = tuple(
        ScaleTime(nodes, pool_measurements(gang_metric(nodes), seconds, ""))
        for nodes in GANG_NODES
        if (seconds := _values(trials, gang_metric(nodes)))
    )
    tried = provider_launches(trials)
    slots = tuple(_shortage(slot, [t for t in tried if t.slot == slot]) for slot in sorted({t.slot for t in tried}))
    refused = sum(share.refused.successes for share in slots)
    return Capacity(scale, gang, slots, wilson_interval(refused, len(tried)), _reason(scale, provider))


def _shortage(slot: str, trials: Sequence[TrialSample]) -> Shortage:
    refused = tuple(t.trial_id for t in trials if t.failure_class == "insufficient_capacity")
    return Shortage(slot, wilson_interval(len(refused), len(trials)), refused)


def _reason(scale: Sequence[ScaleTime], provider: Provider | None) -> str:
    if not scale:
        return "nothing was launched"
    if provider is not None and provider.launcher.not_scalable is not None:
        return provider.launcher.not_scalable
    known = [s.nodes for s in scale if s.time.value is not None]
    if not known:
        return scale[0].time.reason
    if len(known) == 1:
        return f"only launches of {known[0]} {'node' if known[0] == 1 else 'nodes'} were measured; a workload with other parallelism.nodes would show more"
    return ""
