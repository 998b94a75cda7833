"""Capacity: how long a provider takes to have one node running, or several at once, and how often it has none to give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.declarations import Provider
from plumbline.declarations.confidence import Share, wilson
from plumbline.scorecards.friction import lead_time_of
from plumbline.scorecards.inputs import TrialNumbers
from plumbline.scorecards.launches import launched
from plumbline.scorecards.pooling import Measured


@dataclass(frozen=True)
class ScaleTime:
    """From the request to the last of `nodes` pods running, in seconds."""

    nodes: int
    time: Measured


@dataclass(frozen=True)
class Shortage:
    """How often launches in one slot of the day (UTC) were refused for want of capacity; `trials` are those that were."""

    slot: str
    refused: Share
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Capacity:
    """`scale` by rising number of nodes, `shortage` by slot, `refused` over all slots. `reason` says what was not measured, if anything."""

    scale: tuple[ScaleTime, ...]
    shortage: tuple[Shortage, ...]
    refused: Share
    reason: str = ""


def capacity(trials: Sequence[TrialNumbers], provider: Provider | None) -> Capacity:
    """The capacity that all launches of one provider show, whatever they were launched for. Pure."""
    scale = tuple(
        ScaleTime(nodes, lead_time_of([t for t in trials if t.nodes == nodes], provider))
        for nodes in sorted({t.nodes for t in launched(trials)})
    )
    tried = launched(trials)
    slots = tuple(_shortage(slot, [t for t in tried if t.slot == slot]) for slot in sorted({t.slot for t in tried}))
    refused = sum(share.refused.successes for share in slots)
    return Capacity(scale, slots, wilson(refused, len(tried)), _reason(scale, provider))


def _shortage(slot: str, trials: Sequence[TrialNumbers]) -> Shortage:
    refused = tuple(t.trial_id for t in trials if t.failure_class == "insufficient_capacity")
    return Shortage(slot, wilson(len(refused), len(trials)), refused)


def _reason(scale: Sequence[ScaleTime], provider: Provider | None) -> str:
    if not scale:
        return "nothing was launched"
    if provider is not None and provider.launcher.kind == "local":
        return "one machine, this one: it cannot be scaled"
    known = [s.nodes for s in scale if s.time.value is not None]
    if not known:
        return scale[0].time.reason
    if len(known) == 1:
        return f"only launches of {known[0]} {'node' if known[0] == 1 else 'nodes'} were measured; a workload with other parallelism.nodes shows more"
    return ""
