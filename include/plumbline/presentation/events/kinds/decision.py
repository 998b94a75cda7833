"""First choices of teams: which one moved, and which a person accepted."""

from __future__ import annotations

from urllib.parse import quote

from plumbline.archive.happened import MovedChoice
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, register
from plumbline.presentation.events.kinds.finding import finding_text
from plumbline.presentation.events.logged_findings import finding_event, logged_findings


@register
class DecisionEvent(EventKind):
    id = "decision"
    order = 50
    one = "decision"
    money = True

    def events(self, window: EventWindow) -> list[StreamEvent]:
        moved = [self._moved(one) for one in window.archive.moved_choices(window.span, window.limit)]
        accepted = [
            finding_event(window, self.id, "accepted", f"First choice accepted: {finding_text(view)}", entry, view)
            for entry, view in logged_findings(window, ("finding_accepted",))
            if FirstChoice.owns(view.kind, str(view.detail.get("subject", "")))
        ]
        return [event for event in (*moved, *accepted) if window.provider in ("", *event.providers)]

    def _moved(self, one: MovedChoice) -> StreamEvent:
        now = f"is now {one.first}, before {one.instead_of}" if one.first else f"is none: no provider is eligible, before {one.instead_of}"
        text = f"First choice of {one.team} for {one.kind} {now}"
        providers = tuple(filter(None, (one.first, one.instead_of)))
        link = f"/decisions/{quote(one.team)}/{one.kind}#decision-{one.decision_id}"
        return StreamEvent(
            f"{self.id}/{one.decision_id}", one.decided_at, self.id, "changed", text, link, providers, one.workloads, why=one.why,
            simulated=one.simulated,
        )  # fmt: skip

    def looked(self, window: EventWindow) -> Looked:
        last = window.archive.newest_decision()
        return Looked(
            "decisions of teams", last, "" if last else "none was stored: no team declares what it prefers, or nothing was measured"
        )
