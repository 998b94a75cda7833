"""Acceptances of a provider so far, newest first: which nodes go back and why, what to try first, and how each node did before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.analysis.node_acceptance import FleetVerdict
from plumbline.judgement import Judgement
from plumbline.presentation.acceptance_sheet import ORDER, method, summary
from plumbline.words.acceptance import judge_delivery, lacking_of, network_text, reasons_of, remedy_of


@dataclass(frozen=True)
class RecordedAcceptance:
    """One campaign that measured each node of a provider."""

    campaign_id: str
    planned_at: datetime
    fleet: FleetVerdict


@dataclass(frozen=True)
class NodeLine:
    """A node in the newest acceptance. `remedy`: what to try before it goes back. `before`: (campaign, verdict) of earlier ones, newest first."""

    node: str
    verdict: str
    reasons: tuple[str, ...]
    lacking: tuple[str, ...]
    remedy: str
    before: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class AcceptanceLine:
    campaign_id: str
    planned_at: datetime
    summary: str


@dataclass(frozen=True)
class DeliveryView:
    """A provider's nodes by its newest acceptance, those that go back first. `judgement`: of the whole delivery. `network`: whether it was measured;
    `method`: what the test could find. `history`: every acceptance that is shown, newest first."""

    provider: str
    simulated: bool
    campaign_id: str
    planned_at: datetime
    summary: str
    judgement: Judgement
    network: str
    method: tuple[str, ...]
    nodes: tuple[NodeLine, ...]
    history: tuple[AcceptanceLine, ...]

    @property
    def returned(self) -> int:
        return sum(bool(node.reasons) for node in self.nodes)


@dataclass(frozen=True)
class OpenNodes:
    """Nodes of a provider that its newest acceptance did not accept, by name: `send_back` and `reset_first` go back, `undecided` ones were not
    measured, or an upgrade is on them. `text`: a sentence with the campaign and its day."""

    provider: str
    campaign_id: str
    planned_at: datetime
    send_back: tuple[str, ...]
    reset_first: tuple[str, ...]
    undecided: tuple[str, ...]
    text: str


def open_nodes(delivery: DeliveryView) -> OpenNodes | None:
    """None where every node is accepted."""
    lines = [node for node in delivery.nodes if node.reasons or node.lacking]
    if not lines:
        return None
    return OpenNodes(
        delivery.provider,
        delivery.campaign_id,
        delivery.planned_at,
        tuple(n.node for n in lines if n.reasons and not n.remedy),
        tuple(n.node for n in lines if n.remedy),
        tuple(n.node for n in lines if not n.reasons),
        f"Nodes of {delivery.provider}, by its acceptance of {delivery.planned_at:%Y-%m-%d}: {delivery.summary}.",
    )


def delivery_view(provider: str, simulated: bool, acceptances: Sequence[RecordedAcceptance]) -> DeliveryView:
    """Of at least one acceptance, newest first."""
    newest, earlier = acceptances[0], [(one.campaign_id, {v.node.name: v.text for v in one.fleet.nodes}) for one in acceptances[1:]]
    nodes = [
        NodeLine(
            verdict.node.name,
            verdict.text,
            reasons_of(verdict),
            lacking_of(verdict),
            remedy_of(verdict),
            tuple((campaign, texts[verdict.node.name]) for campaign, texts in earlier if verdict.node.name in texts),
        )
        for verdict in sorted(newest.fleet.nodes, key=lambda v: ORDER.index(v.text))
    ]
    return DeliveryView(
        provider,
        simulated,
        newest.campaign_id,
        newest.planned_at,
        summary(newest.fleet),
        judge_delivery(newest.fleet),
        network_text(newest.fleet),
        method(newest.fleet)[:-1],
        tuple(nodes),
        tuple(AcceptanceLine(one.campaign_id, one.planned_at, summary(one.fleet)) for one in acceptances),
    )
