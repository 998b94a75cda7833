"""The acceptance of a fleet in words: why nodes go back or decide nothing, and what the comparison can find."""

from __future__ import annotations

from plumbline.analysis.node_acceptance import (
    POWER,
    UPGRADE,
    BeyondLimit,
    CountedFault,
    FigureTest,
    FleetVerdict,
    NodeReason,
    NodeVerdict,
    NoFigure,
    SharedSerial,
)
from plumbline.judgement import Judgement, broken, is_measured, judges, met, not_shown
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_change, format_probe_name, format_quantity, join_words

_COUNTERS = {
    "row_remap_pending": "remapped memory rows are pending until a reset",
    "row_remap_failure": "faulty memory rows could not be remapped",
    "page_retirement_pending": "memory pages are pending retirement",
    "ecc_uncorrected_volatile": "uncorrectable memory errors",
}


def reasons_of(verdict: NodeVerdict) -> tuple[str, ...]:
    """Why the node goes back."""
    return tuple(map(_reason_text, verdict.reasons))


def lacking_of(verdict: NodeVerdict) -> tuple[str, ...]:
    """Why the node can be neither accepted nor sent back."""
    return tuple(map(_reason_text, verdict.lacking))


def remedy_of(verdict: NodeVerdict) -> str:
    """What to try before it goes back; empty where nothing is known to help."""
    return "reset its GPUs first (nvidia-smi --gpu-reset, or reboot), then accept it again" if verdict.reset_first else ""


def network_text(fleet: FleetVerdict) -> str:
    """Whether the network between nodes was measured, and how to measure it."""
    if fleet.network:
        return "The network between nodes was measured in pairs."
    return "The network between nodes was not measured; --rounds 5 measures it in pairs."


def _reason_text(reason: NodeReason) -> str:
    if isinstance(reason, str):
        return reason
    if isinstance(reason, CountedFault):
        return f"{_COUNTERS[reason.counter]} ({reason.counter} {reason.count})"
    if isinstance(reason, SharedSerial):
        return f"GPU serial number {reason.serial} is also that of {join_words(reason.others)}: one card is in one node"
    name = format_probe_name(reason.metric)
    if isinstance(reason, NoFigure):
        return f"no {name}"
    unit = METRICS[reason.metric].unit
    figure = f"{name} {format_quantity(reason.value, unit)}"
    if isinstance(reason, BeyondLimit):
        return f"{figure}, worse than {format_quantity(reason.limit.value, unit)} ({reason.limit.source})"
    suspect = ": suspect, measure it again" if reason.suspect else ""
    return f"{figure}, {format_change(reason.change)} from the fleet's median{suspect}"


def judge_node(verdict: NodeVerdict) -> Judgement:
    """Met by a node that is accepted."""
    if verdict.verdict == "broken":
        return broken("; ".join(reasons_of(verdict)))
    figures = f"{len([v for v in verdict.node.figures.values() if is_measured(v)])} figures measured"
    if verdict.verdict == "met":
        return met(f"{figures}, none slow; facts as of the fleet")
    upgrading = verdict.text == UPGRADE
    decides = "another acceptance once the upgrade is done" if upgrading else "another acceptance that measures the node completely"
    return not_shown(figures, "; ".join(lacking_of(verdict)), decides)


@judges("acceptance of nodes")
def judge_delivery(fleet: FleetVerdict) -> Judgement:
    """Of the whole delivery: met only if every node is accepted."""
    seen = f"{sum(v.verdict == 'met' for v in fleet.nodes)} of {len(fleet.nodes)} nodes accepted"
    if fleet.verdict == "broken":
        back = tuple(verdict for verdict in fleet.returned if not verdict.reset_first)
        parts = [
            f"{len(each)} {what}: {_names(each)}" for what, each in (("to send back", back), ("to reset first", fleet.to_reset)) if each
        ]
        return broken(f"{seen}, {'; '.join(parts)}")
    if fleet.verdict == "met":
        return met(seen)
    if fleet.upgrading and not fleet.unmeasured:
        return not_shown(seen, f"{UPGRADE} on {_names(fleet.upgrading)}", "another acceptance once the upgrade is done")
    names = _names((*fleet.unmeasured, *fleet.upgrading)) or "every node"
    return not_shown(seen, f"{names} not measured", "another acceptance that measures them completely")


def _names(verdicts: tuple[NodeVerdict, ...]) -> str:
    return join_words([verdict.node.name for verdict in verdicts])


def figure_text(test: FigureTest) -> str:
    """What the comparison of one figure can find."""
    name = f"{format_probe_name(test.metric)}, median {format_quantity(test.median, METRICS[test.metric].unit)}"
    if test.detectable is None:
        return f"{name}: {test.nodes} nodes are too few for a test; a node {test.limit:.0%} worse than the best goes back"
    found = f"with {test.nodes} nodes a slowdown of {test.detectable:.1%} is found in {POWER:.0%} of cases"
    return f"{name}: {found}; a second measurement decides"
