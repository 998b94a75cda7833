"""Campaigns: when each began, and how it ended, once its series were reviewed."""

from __future__ import annotations

from plumbline.archive import Outcomes
from plumbline.declarations.purposes import ACCEPTANCE_REASON
from plumbline.metrics.formatting import format_count, format_name
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, register

MOST = 100
"""Campaigns of a window, the newest: each one's trials are counted."""


def format_outcome(outcomes: Outcomes) -> str:
    """How the trials of a campaign ended, in words."""
    if not outcomes.planned:
        return "no trials"
    if outcomes.usable == outcomes.planned:
        return f"all {format_count(outcomes.planned, 'trial')} usable" if outcomes.planned > 1 else "its one trial usable"
    lost = ((getattr(outcomes, name), name) for name in ("invalid", "rejected", "failed", "missing"))
    return f"{outcomes.usable:,} of {outcomes.planned:,} trials usable, {', '.join(f'{n:,} {format_name(name)}' for n, name in lost if n)}"


@register
class CampaignEvent(EventKind):
    id = "campaign"
    order = 60
    one = "campaign"
    counted_apart = True
    on_charts = ()

    def events(self, window: EventWindow) -> list[StreamEvent]:
        archive, most = window.archive, min(window.limit, MOST)
        begun = {head.campaign_id: head for head in archive.campaigns_page(limit=most, between=window.span).rows}
        reviewed = archive.reviews_between(window.span)
        ended = dict(sorted(reviewed.items(), key=lambda one: one[1], reverse=True)[:most])
        heads = begun | {name: head for name in ended if name not in begun and (head := archive.campaign_head(name)) is not None}
        if window.provider:
            took_part = archive.providers_of_campaigns(list(heads))
            heads = {name: head for name, head in heads.items() if window.provider in took_part.get(name, ())}
        marks, outcomes = archive.marked(list(heads)), archive.campaign_outcomes(list(heads))
        found = []
        for name, head in heads.items():
            simulated = "simulated" in marks.get(name, ())
            reason = f": {head.reason}" if head.reason != name else ""
            providers = (head.reason.removeprefix(ACCEPTANCE_REASON),) if head.purpose == "acceptance" else ()
            of = {"link": f"/campaigns/{name}", "providers": providers, "campaign_id": name, "simulated": simulated}
            if name in begun:
                text = f"Campaign {name} began{reason}"
                found.append(StreamEvent(f"{self.id}/{name}/began", head.planned_at, self.id, "began", text, **of))  # type: ignore[arg-type]
            if name in ended:
                text = f"Campaign {name} was reviewed: {format_outcome(outcomes.get(name, Outcomes()))}"
                found.append(StreamEvent(f"{self.id}/{name}/ended", ended[name], self.id, "ended", text, **of))  # type: ignore[arg-type]
        return found

    def looked(self, window: EventWindow) -> Looked:
        if window.provider:
            last = window.archive.last_run([window.provider]).get(window.provider)
        else:
            last = next((head.planned_at for head in window.archive.campaigns_page(limit=1).rows), None)
        return Looked("campaigns", last, "" if last else "none ran yet")
