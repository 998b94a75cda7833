"""Findings that were opened, became more severe, or are resolved. A first choice that moved is an event of its own kind."""

from __future__ import annotations

from plumbline.answers.compared_series import compared_series
from plumbline.archive import FindingView
from plumbline.archive.audit import SERIES_REVIEWED
from plumbline.archive.records import AuditView
from plumbline.findings.headline import headline
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, register
from plumbline.presentation.events.logged_findings import finding_event, logged_findings
from plumbline.results.finding import gravity
from plumbline.results.stored import read_finding

_OPENED, _CONTINUED, _RESOLVED = "finding_opened", "finding_continued", "finding_resolved"


def finding_text(view: FindingView) -> str:
    """The finding's headline, without its amount."""
    finding = read_finding(view)
    return headline(finding) if finding is not None else view.headline


@register
class FindingEvent(EventKind):
    id = "finding"
    order = 10
    one = "finding"
    counted_apart = True
    on_charts = ("opened",)

    def events(self, window: EventWindow) -> list[StreamEvent]:
        return [
            self._event(window, entry, view)
            for entry, view in logged_findings(window, (_OPENED, _CONTINUED, _RESOLVED))
            if not FirstChoice.owns(view.kind, str(view.detail.get("subject", ""))) and (entry.what != _CONTINUED or _worsened(entry))
        ]

    def _event(self, window: EventWindow, entry: AuditView, view: FindingView) -> StreamEvent:
        text = finding_text(view)
        if entry.what == _OPENED:
            return finding_event(window, self.id, "opened", text, entry, view, usd=window.usd_of(view))
        if entry.what == _RESOLVED:
            return finding_event(window, self.id, "resolved", text, entry, view)
        what = f"{text}: {entry.detail['before']} became {entry.detail['severity']}"
        return finding_event(window, self.id, "worsened", what, entry, view, usd=window.usd_of(view))

    def looked(self, window: EventWindow) -> Looked:
        compared = compared_series(window.archive, window.provider or None)
        note = compared.missing or f"all {compared.n} series compared"
        return Looked("series compared with their baselines", window.archive.newest_entry((SERIES_REVIEWED,)), note)


def _worsened(entry: AuditView) -> bool:
    before, now = entry.detail.get("before"), entry.detail.get("severity")
    return bool(before and now) and gravity(str(now)) < gravity(str(before))
