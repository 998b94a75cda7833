"""What people did: took a finding, accepted a baseline, asked for a rerun, corrected a measurement, noted a ticket; who and why."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.archive import FindingView
from plumbline.archive.records import AuditView
from plumbline.findings.types import stored_type
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.formatting import format_count
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, person, register
from plumbline.presentation.events.kinds.finding import finding_text
from plumbline.presentation.events.logged_findings import finding_event, logged_findings, readable_series

_OF_FINDINGS = {
    "finding_acknowledged": ("acknowledged", "Took ownership"),
    "finding_accepted": ("accepted", "Accepted"),
    "finding_reopened": ("reopened", "Reopened"),
    "finding_snoozed": ("snoozed", "Snoozed"),
    "finding_woken": ("woken", "Ended the snooze"),
    "baseline_kept": ("kept", "Kept the baseline"),
    "rerun_asked": ("rerun", "Asked for a rerun"),
    "request_refused": ("refused", "Request without a page's signature refused"),
}
_OTHERS = {
    "rerun_asked": ("rerun", "Asked for campaign {}"),
    "measurement_corrected": ("corrected", "Corrected the measurement {}"),
    "document_released": ("released", "Released the result {} from quarantine"),
    "import_forgotten": ("forgotten", "Removed the imported result {}"),
}
_BASELINE = "baseline_accepted"


@register
class ActionEvent(EventKind):
    id = "action"
    order = 70
    one = "action"
    on_charts = ("baseline",)

    def events(self, window: EventWindow) -> list[StreamEvent]:
        if window.on_charts:
            return list(self._baselines(window))
        taken = [event for entry, view in logged_findings(window, tuple(_OF_FINDINGS)) for event in self._of_finding(window, entry, view)]
        known = {(event.who, event.why) for event in taken if event.what == "accepted"}
        baselines = [event for event in self._baselines(window) if (event.who, event.why) not in known or window.provider]
        return [*taken, *baselines, *self._others(window), *self._noted(window)]

    def _of_finding(self, window: EventWindow, entry: AuditView, view: FindingView) -> Iterator[StreamEvent]:
        of = stored_type(view.kind, str(view.detail.get("subject", "")))
        # A price and a first choice that were accepted are events of their own kinds.
        accepted_elsewhere = entry.what == "finding_accepted" and (of.accepting == "price" or isinstance(of, FirstChoice))
        if person(entry.who) and not accepted_elsewhere:
            what, words = _OF_FINDINGS[entry.what]
            usd = window.usd_of(view) if what == "accepted" else None
            yield finding_event(window, self.id, what, f"{words}: {finding_text(view)}", entry, view, usd=usd)

    def _baselines(self, window: EventWindow) -> Iterator[StreamEvent]:
        """One event for what was accepted at once."""
        keys = None
        if window.provider:
            keys = [view.series_key for view in window.archive.series_of([window.provider])]
        together: dict[tuple[str, str, str], list[AuditView]] = {}
        for entry in window.archive.audit_between((_BASELINE,), window.span, window.limit, keys):
            if entry.detail.get("rule") == "decision":
                together.setdefault((entry.who, entry.why, f"{entry.at:%Y-%m-%d %H:%M}"), []).append(entry)
        for entries in together.values():
            first, series = entries[-1], tuple(sorted({entry.subject for entry in entries}))
            workloads = {one.workload for one in readable_series(series)}
            providers = tuple(sorted({one.provider for one in readable_series(series)}))
            of = f"of {workloads.pop()}" if len(workloads) == 1 else f"of {format_count(len(series), 'series', 'series')}"
            text = f"Accepted {first.detail['campaign_id']} as baseline {of} on {', '.join(providers)}"
            yield StreamEvent(
                f"{self.id}/baseline/{series[0]}/{first.at.isoformat()}", first.at, self.id, "baseline", text,
                f"/campaigns/{first.detail['campaign_id']}", providers, series=series, campaign_id=str(first.detail["campaign_id"]),
                who=first.who, why=first.why, simulated=any(window.is_simulated(name) for name in providers),
            )  # fmt: skip

    def _others(self, window: EventWindow) -> Iterator[StreamEvent]:
        if window.provider:
            return
        for entry in window.archive.audit_between(tuple(_OTHERS), window.span, window.limit):
            if person(entry.who) and "answer" not in entry.detail:  # the answer to a finding is one of its own
                what, words = _OTHERS[entry.what]
                link = f"/campaigns/{entry.subject}" if what == "rerun" else ""
                made = f"{self.id}/{what}/{entry.subject}/{entry.at.isoformat()}"
                yield StreamEvent(made, entry.at, self.id, what, words.format(entry.subject), link, who=entry.who, why=entry.why)

    def _noted(self, window: EventWindow) -> Iterator[StreamEvent]:
        for e in window.operations:
            if e.kind in ("ticket", "quota") and (window.holds(e.opened) or window.holds(e.solved)):
                answer = "answered" if e.solved is not None else "not answered yet"
                text = f"{'Ticket' if e.kind == 'ticket' else 'Quota request'} to {e.provider}: {e.what}, {answer}"
                at = e.opened if window.holds(e.opened) or e.solved is None else e.solved
                link = f"/providers/{e.provider}/promises#log-{e.entry_id}"
                yield StreamEvent(
                    f"{self.id}/log/{e.entry_id}", at, self.id, e.kind, text, link, (e.provider,), who=e.recorded_by,
                    simulated=window.is_simulated(e.provider), updated=e.solved,
                )  # fmt: skip

    def looked(self, window: EventWindow) -> Looked:
        what = (*_OF_FINDINGS, *_OTHERS, _BASELINE)
        last = window.archive.newest_entry(what)
        return Looked("actions in the audit log and the operations log", last, "" if last else "none is in it")
