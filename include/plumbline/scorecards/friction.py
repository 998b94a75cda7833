"""Operational friction: what it takes to get a trial running at a provider, against what the provider's contract promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.declarations import Provider
from plumbline.declarations.confidence import Share, wilson
from plumbline.scorecards.inputs import TrialNumbers
from plumbline.scorecards.launches import LaunchSuccess, launch_success, launched
from plumbline.scorecards.pooling import Measured, measured

PHASE = "cold_start"
"""The phase that the outside's view of a launch belongs to."""

Verdict = Literal["met", "missed", "unproven", "none_declared"]

_NO_POD = {
    "local": "a process on this machine is started: there is no pod",
    "simulated": "the simulation makes up no pods",
    "endpoint": "the endpoint's server runs already: there is no pod",
}


@dataclass(frozen=True)
class LeadTime:
    """From the request for a trial to its process running (of a gang: the last pod's), in seconds, against what the contract promises.

    The promise is one about each launch: `kept` counts those within `promised_s`, and a single one beyond it is a miss. Launches that
    never ran have no lead time: launch success counts them.
    """

    time: Measured
    promised_s: float | None
    kept: Share
    verdict: Verdict


@dataclass(frozen=True)
class Friction:
    """`manual_steps`: what a person must do first, as declared; () says nothing, None that nobody declared it."""

    lead_time: LeadTime
    pod_scheduling: Measured
    image_pull: Measured
    launch: LaunchSuccess
    manual_steps: tuple[str, ...] | None


def friction(trials: Sequence[TrialNumbers], provider: Provider | None) -> Friction:
    """The friction of every attempt of one provider's trials. `provider` None: it is not declared, so nothing is promised.

    Pure. A retry is a launch of its own; a trial that failed after it had started was launched all the same.
    """
    return Friction(
        lead_time=_lead_time(trials, provider),
        pod_scheduling=_of_pods(trials, "pod_scheduling_time", provider),
        image_pull=_of_pods(trials, "image_pull_time", provider),
        launch=launch_success(trials, provider.sla.launch_success if provider is not None else None),
        manual_steps=provider.manual_steps if provider is not None else None,
    )


def lead_time_of(trials: Sequence[TrialNumbers], provider: Provider | None) -> Measured:
    """Lead times of all launches that ran; None with the reason where nothing is provisioned or nobody measured it."""
    if provider is not None and provider.launcher.kind == "endpoint":
        return measured("provisioning_lead_time", (), "nothing is provisioned: the endpoint's server runs already")
    return measured("provisioning_lead_time", _values(trials, "provisioning_lead_time"), _unmeasured(trials))


def _lead_time(trials: Sequence[TrialNumbers], provider: Provider | None) -> LeadTime:
    time = lead_time_of(trials, provider)
    promised = provider.sla.provisioning_lead_time if provider is not None else None
    within = sum(value <= promised for value in time.values) if promised is not None else 0
    kept = wilson(within, time.n if promised is not None else 0)
    verdict: Verdict
    if promised is None:
        verdict = "none_declared"
    elif not time.n:
        verdict = "unproven"
    else:
        verdict = "met" if within == time.n else "missed"
    return LeadTime(time, promised, kept, verdict)


def _of_pods(trials: Sequence[TrialNumbers], metric: str, provider: Provider | None) -> Measured:
    found = _values(trials, metric)
    reason = _NO_POD.get(provider.launcher.kind) if provider is not None else None
    if reason is None:
        scheduled = metric == "image_pull_time" and _values(trials, "pod_scheduling_time")
        reason = "no node was seen to pull the image: each held it already, or did not say" if scheduled else _unmeasured(trials)
    return measured(metric, found, reason)


def _values(trials: Sequence[TrialNumbers], metric: str) -> list[tuple[str, float]]:
    return [(t.trial_id, value) for t in launched(trials) if (value := t.value(metric, "value", PHASE)) is not None]


def _unmeasured(trials: Sequence[TrialNumbers]) -> str:
    return "no launch was seen from the outside" if launched(trials) else "nothing was launched"
