"""Read the acceptances of a provider that were recorded."""

from __future__ import annotations

from contextlib import suppress

from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.presentation.acceptances import DeliveryView, OpenNodes, RecordedAcceptance, delivery_view, open_nodes
from plumbline.workflows.accept_nodes import acceptance_verdict

SHOWN = 6
"""Newest acceptances of a provider."""


def accepted_providers(archive: Archive) -> list[str]:
    """Providers with a recorded acceptance, by name."""
    return sorted(archive.acceptances())


def accepted_nodes(archive: Archive) -> list[tuple[str, str, str]]:
    """(provider, node, trial) of every node in its provider's newest acceptance, without judging it."""
    newest = {heads[0].campaign_id: provider for provider, heads in archive.acceptances().items()}
    found: dict[tuple[str, str], str] = {}
    for view, held in archive.held_in(list(newest)):
        if held is not None and held.trial.placement == "each_node":
            found |= {(view.provider, node): view.trial_id for node in held.trial.on_nodes if len(held.trial.on_nodes) == 1}
    return [(provider, node, trial) for (provider, node), trial in sorted(found.items())]


def winner_nodes(archive: Archive, declared: Declarations, provider: str | None) -> OpenNodes | None:
    """Nodes of a first choice that were not accepted, by its newest acceptance; None without one, without a choice, and where all are accepted."""
    found = None if provider is None else delivery(archive, declared, provider)
    return None if found is None else open_nodes(found)


def delivery(archive: Archive, declared: Declarations, provider: str, campaign_id: str | None = None) -> DeliveryView | None:
    """The provider's newest acceptances, or this campaign and those before it, each judged with the one before it as its sheet was; None without
    one that measured a node."""
    place = declared.providers.get(provider)
    rules = None if place is None else (place, declared.references)
    before: dict[str, set[str]] = {}
    found: list[RecordedAcceptance] = []
    heads = archive.acceptances().get(provider, [])
    first = next((i for i, head in enumerate(heads) if campaign_id in (None, head.campaign_id)), len(heads))
    for head in reversed(heads[first : first + SHOWN + 1]):
        with suppress(LookupError):  # planned, and nothing recorded yet
            fleet = acceptance_verdict(archive, head.campaign_id, provider, before, rules)
            before = {verdict.node.name: set(verdict.slow) for verdict in fleet.nodes if verdict.slow}
            found.insert(0, RecordedAcceptance(head.campaign_id, head.planned_at, fleet))
    if not found:
        return None
    simulated = place.simulated if place is not None else "simulated" in archive.marked([found[0].campaign_id])[found[0].campaign_id]
    return delivery_view(provider, simulated, found[:SHOWN])
