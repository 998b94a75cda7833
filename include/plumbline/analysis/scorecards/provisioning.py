"""Launch success, lead time and capacity of one provider, against what its contract promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Provider
from plumbline.declarations.promises.judging.launches import OPERATOR_FAULTS, UNPROVEN
from plumbline.declarations.promises.judging.share import PromisedShare
from plumbline.declarations.promises.launch_success import LaunchSuccess, launch_success
from plumbline.declarations.promises.provisioning_lead_time import LeadTime, judge_lead_time
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.pooling import PooledMetric, pool_measurements
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.results.launch_record import GANG_NODES, gang_metric


def provider_launches(trials: Sequence[TrialSample]) -> tuple[TrialSample, ...]:
    """Attempts that were launches of the provider's. Missing trials were not seen to launch or to fail; what failed by our fault is none, and
    what failed for an unproven cause is counted apart."""
    return tuple(t for t in trials if t.status != "missing" and t.failure_class not in OPERATOR_FAULTS | UNPROVEN)


PHASE = "cold_start"
"""The phase that the outside's view of a launch belongs to."""

_NO_POD = {
    "local": "a process on this machine is started: there is no pod",
    "simulated": "the simulation has no pods",
    "endpoint": "the endpoint's server already runs",
    "slurm": "a job of Slurm's has no pod: see job_queue_time",
    "ssh": "a command of a machine has no pod",
}


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
        launch=launch_success(Counter(t.failure_class for t in trials if t.status != "missing"), LaunchSuccess.promised(sla)),
        manual_steps=provider.manual_steps if provider is not None else None,
    )


def lead_time_of(trials: Sequence[TrialSample], provider: Provider | None) -> PooledMetric:
    """Lead times of all launches that ran; None with the reason where nothing is provisioned or nobody measured it."""
    if provider is not None and (reason := provider.launcher.not_provisioned) is not None:
        return pool_measurements("provisioning_lead_time", (), reason)
    return pool_measurements("provisioning_lead_time", _values(trials, "provisioning_lead_time"), _unmeasured(trials))


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
class LaunchCapacity:
    """`scale` by rising number of nodes, as launches asked for them; `gang` as they came one after the other within gangs; `shortage` by slot,
    `refused` over all slots. `reason` says what was not measured, if anything."""

    scale: tuple[ScaleTime, ...]
    gang: tuple[ScaleTime, ...]
    shortage: tuple[Shortage, ...]
    refused: Proportion
    reason: str = ""


def capacity(trials: Sequence[TrialSample], provider: Provider | None) -> LaunchCapacity:
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
    return LaunchCapacity(scale, gang, slots, wilson_interval(refused, len(tried)), _reason(scale, provider))


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
