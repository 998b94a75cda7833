"""Read the acceptances of a provider that were recorded."""

from __future__ import annotations

from contextlib import suppress

from plumbline.archive import Archive
from plumbline.archive.trials import ACCEPTANCE
from plumbline.declarations import Declarations
from plumbline.presentation.acceptances import DeliveryView, RecordedAcceptance, delivery_view
from plumbline.workflows.accept_nodes import acceptance_verdict

SHOWN = 6
"""Newest acceptances of a provider."""


def accepted_providers(archive: Archive) -> list[str]:
    """Providers with a recorded acceptance, by name."""
    return sorted({head.reason.removeprefix(ACCEPTANCE) for head in archive.acceptance_campaigns()})


def delivery(archive: Archive, declared: Declarations, provider: str) -> DeliveryView | None:
    """The provider's newest acceptances, each judged with the one before it as its sheet was; None without one that measured a node."""
    place = declared.providers.get(provider)
    rules = None if place is None else (place, declared.references)
    before: dict[str, set[str]] = {}
    found: list[RecordedAcceptance] = []
    for head in reversed(archive.acceptance_campaigns(provider)[: SHOWN + 1]):
        with suppress(LookupError):  # planned, and nothing recorded yet
            fleet = acceptance_verdict(archive, head.campaign_id, provider, before, rules)
            before = {verdict.node.name: set(verdict.slow) for verdict in fleet.nodes if verdict.slow}
            found.insert(0, RecordedAcceptance(head.campaign_id, head.planned_at, fleet))
    if not found:
        return None
    simulated = place.simulated if place is not None else "simulated" in archive.marked([found[0].campaign_id])[found[0].campaign_id]
    return delivery_view(provider, simulated, found[:SHOWN])
