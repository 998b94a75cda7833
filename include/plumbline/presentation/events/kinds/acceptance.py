"""Deliveries that were measured node by node, with the verdict on them."""

from __future__ import annotations

from plumbline.archive.audit import DELIVERY_JUDGED
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, register


@register
class AcceptanceEvent(EventKind):
    id = "acceptance"
    order = 40
    one = "acceptance"

    def events(self, window: EventWindow) -> list[StreamEvent]:
        found = []
        for entry in window.archive.audit_between((DELIVERY_JUDGED,), window.span, window.limit):
            provider = str(entry.detail["provider"])
            if window.provider in ("", provider):
                text = f"Delivery of {provider}: {entry.why}"
                what = str(entry.detail["verdict"])
                made = f"{self.id}/{entry.subject}/{entry.at.isoformat()}"
                found.append(
                    StreamEvent(
                        made, entry.at, self.id, what, text, f"/acceptance#{provider}", (provider,), campaign_id=entry.subject,
                        simulated=window.is_simulated(provider),
                    )
                )  # fmt: skip
        return found

    def looked(self, window: EventWindow) -> Looked:
        found = window.archive.acceptances()
        of = [found.get(window.provider, [])] if window.provider else found.values()
        heads = sorted((head for each in of for head in each), key=lambda head: head.planned_at, reverse=True)
        return Looked(
            "deliveries", heads[0].planned_at if heads else None, "" if heads else "none was measured: `plumbline accept PROVIDER`"
        )
