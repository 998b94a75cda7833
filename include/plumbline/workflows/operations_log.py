"""The operations log: what people note of a provider, and the findings of promises that it shows broken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from plumbline.answers.findings import readable_findings
from plumbline.answers.promises import provider_promises
from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.types.broken_promise import BrokenPromise
from plumbline.metrics.formatting import unknown_name
from plumbline.results.operations import LogEntry, LogEntryView, LogKind, Whose
from plumbline.workflows.findings import apply


def log_operation(archive: Archive, declared: Declarations, given: Mapping[str, str | None], by: str) -> LogEntryView:
    """Add an entry to the operations log; with `id` complete or correct that one by the fields that are given. A breach that the log shows now
    opens a finding.

    `given`: fields of a LogEntry as a form has them, and `id`; an empty one counts as left out. LookupError for an unknown
    provider or entry; ValueError for what is missing, has another shape, or cannot be true.
    """
    fields: dict[str, Any] = {}
    if entry_id := given.get("id"):
        known = archive.operations_history(entry_id)[-1]
        fields |= {name: getattr(known, name) for name in LogEntry.__dataclass_fields__}
    try:
        entry = TypeAdapter(LogEntry).validate_python(fields | {name: text for name, text in given.items() if text and name != "id"})
    except ValidationError as error:
        raise ValueError(_expected(str(error.errors()[0]["loc"][0]), given)) from None
    if entry.provider not in declared.providers:
        raise LookupError(unknown_name("provider", entry.provider, declared.providers))
    saved = archive.log_entry(entry, by=by, entry_id=entry_id or None)
    report_breaches(archive, declared, saved.provider, by)
    return saved


def _expected(name: str, given: Mapping[str, str | None]) -> str:
    """What is wrong with a field of an entry, and what it takes."""
    choices = {"kind": get_args(LogKind), "whose": get_args(Whose)}.get(name)
    if choices:
        return f'{name} is "{given.get(name) or ""}"; expected {", ".join(choices[:-1])} or {choices[-1]}'
    if name in ("opened", "answered", "solved"):
        return f'{name} is "{given.get(name) or ""}"; expected a time with its zone, such as 2026-11-02T10:00Z'
    return f"{name} is missing; expected what happened, or what was asked" if name == "what" else f"{name} is missing"


def report_breaches(archive: Archive, declared: Declarations, name: str, by: str) -> None:
    """Open a finding for each promise that the operations log or checks between campaigns show broken, once a month; resolve those that a
    correction of the log, or time, takes back."""
    judged = provider_promises(archive, declared, name)
    simulated = declared.providers[name].simulated
    broken = {f"{BrokenPromise.subject}{each.row.name}": each for each in judged.judged if each.broken and not each.shown_by_trials}
    found = []
    for subject, each in broken.items():
        row = each.row
        last = row.last or datetime.now(timezone.utc)
        noted = (
            "It was noted in the operations log."
            if row.evidence
            else "Checks between campaigns showed it; `plumbline availability` lists them."
        )
        began = "" if each.month is not None else f"{last:%Y-%m}"
        about: dict[str, Any] = {"since": f"{last:%Y-%m-%d}", "began": began, "evidence": row.sentence, "simulated": simulated}
        about |= {"title": f"broke its promise of {row.name}", "explanation": noted}
        found.append(provider_finding(name, "reliability", subject, severity="warn", **about))
    past = {f.finding_id: f for f in readable_findings(archive.findings_of(name, unsettled=True)) if BrokenPromise.has(f)}
    gone = tuple(
        (f, "resolved: neither the operations log nor checks show a breach of it") for f in past.values() if f.subject not in broken
    )
    moved = tuple(
        f.with_state(past[f.finding_id].state) for f in found if f.finding_id in past and past[f.finding_id].evidence != f.evidence
    )
    opened = tuple(f for f in found if f.finding_id not in past)
    apply(archive, Reconciliation(opened, moved, gone), by=by, seen_in=f"{datetime.now(timezone.utc):%Y-%m-%d}")
