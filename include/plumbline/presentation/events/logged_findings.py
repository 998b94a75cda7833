"""Findings with their entries in the audit log: what opened, worsened, settled or took them. Several kinds of events read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone

from plumbline.archive import FindingView
from plumbline.archive.records import AuditView
from plumbline.presentation.events.event import EventWindow, StreamEvent, person
from plumbline.results.sample import Series
from plumbline.results.stored import read_finding

SETTLING = ("finding_opened", "finding_continued", "finding_resolved", "finding_accepted")
TAKING = ("finding_acknowledged", "finding_reopened", "finding_snoozed", "finding_woken", "baseline_kept", "rerun_asked", "request_refused")
"""Actions about findings that are read at once; of a chart only the first ones."""


def logged_findings(window: EventWindow, what: Sequence[str]) -> list[tuple[AuditView, FindingView]]:
    """Entries of these actions in the window with the finding of each, newest first; without findings that the reader may not see."""
    return [(entry, view) for entry, view in window.once("findings", lambda: _read(window)) if entry.what in what]


def _read(window: EventWindow) -> list[tuple[AuditView, FindingView]]:
    archive, what = window.archive, SETTLING if window.on_charts else (*SETTLING, *TAKING)
    most = 2 * window.limit  # of several kinds of events
    if window.provider:
        # By the provider's own findings: the audit log has no index of providers.
        views = {view.finding_id: view for view in archive.findings_page(provider=window.provider, limit=window.limit).rows}
        entries = archive.audit_between(what, window.span, most, list(views))
    else:
        entries = archive.audit_between(what, window.span, most)
        views = {view.finding_id: view for view in archive.findings_by_id({entry.subject for entry in entries})}
    return [(entry, views[entry.subject]) for entry in entries if entry.subject in views]


def finding_event(
    window: EventWindow, kind: str, what: str, text: str, entry: AuditView, view: FindingView, *, usd: float | None = None
) -> StreamEvent:
    """An entry about a finding as an event. The program's reasons are in its headline; a person's are the event's."""
    series = tuple(
        dict.fromkeys(key for key in (view.series_key, *(view.detail.get("standing") or view.detail.get("series") or ())) if key)
    )
    by, finding = person(entry.who), read_finding(view)
    return StreamEvent(
        event_id=f"{kind}/{view.finding_id}/{what}/{entry.at.isoformat()}",
        at=entry.at,
        kind=kind,
        what=what,
        text=text,
        link=f"/findings/{view.finding_id}",
        providers=view.providers,
        workloads=tuple(sorted({one.workload for one in readable_series(series)})),
        series=series,
        campaign_id=view.campaign_id or "",
        usd=usd if window.money else None,
        who=by,
        why=entry.why if by else "",
        simulated=finding.simulated if finding is not None else bool(view.detail.get("simulated")),
        effective=_day(str(view.detail.get("since") or "")),
    )


def readable_series(keys: Iterable[str]) -> list[Series]:
    """The parts of these keys; one of another shape is left out."""
    found = []
    for key in keys:
        with suppress(ValueError):
            found.append(Series.parse(key))
    return found


def _day(text: str) -> datetime | None:
    """The first minute (UTC) of a day that a finding names; None without one."""
    try:
        return datetime.fromisoformat(text[:10]).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
