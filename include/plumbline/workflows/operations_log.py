"""The operations log: what people note of a provider, and the findings of promises that it shows broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from plumbline.answers.findings import readable_findings
from plumbline.answers.promises import provider_promises
from plumbline.archive import Archive, FindingView
from plumbline.declarations import Declarations
from plumbline.declarations.promises.judging.evidence import excuses_nothing
from plumbline.findings import Reconciliation, unsettled_id
from plumbline.findings.types.broken_promise import BrokenPromise, broken_promise_finding
from plumbline.findings.types.contradicted_incident import reconcile_contradictions
from plumbline.metrics.formatting import unknown_name
from plumbline.results.finding import OPEN_STATES
from plumbline.results.operations import LogEntry, LogEntryView, LogKind, Whose
from plumbline.workflows.findings import TAKEN_BACK, apply


@dataclass(frozen=True)
class NotedOperation:
    """An entry as it is now, and what it changed: findings of breaches that it `opened` and has `taken_back`, each with its title."""

    entry: LogEntryView
    opened: tuple[tuple[str, str], ...] = ()
    taken_back: tuple[tuple[str, str], ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each consequence; none for an entry that changes nothing."""
        late = (
            f"it excuses nothing: it was noted, or widened, after it began. Name its source: --id {self.entry.entry_id} --reference …"
            if excuses_nothing(self.entry)
            else ""
        )
        return (
            *(f"opens the finding {name}: {title}" for name, title in self.opened),
            *(f"takes back the finding {name}: {title}" for name, title in self.taken_back),
            *filter(None, (late,)),
        )


def log_operation(
    archive: Archive, declared: Declarations, given: Mapping[str, str | None], by: str, uid: int | None = None
) -> NotedOperation:
    """Add an entry to the operations log; with `id` complete or correct that one by the fields that are given. A breach that the log shows now
    opens a finding; what it takes back is resolved in the name of `by`, with the system's `uid` of a command's user, which no environment variable
    changes.

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
    author = by if uid is None else f"{by} (uid {uid})"
    done = report_breaches(
        archive, declared, saved.provider, by, f" since {author} changed entry {saved.entry_id} (revision {saved.revision})"
    )
    taken_back = tuple((f.finding_id, f.title) for f, _ in done.taken_back)
    return NotedOperation(saved, tuple((f.finding_id, f.title) for f in done.opened), taken_back)


def _expected(name: str, given: Mapping[str, str | None]) -> str:
    """What is wrong with a field of an entry, and what it takes."""
    choices = {"kind": get_args(LogKind), "whose": get_args(Whose)}.get(name)
    if choices:
        return f'{name} is "{given.get(name) or ""}"; expected {", ".join(choices[:-1])} or {choices[-1]}'
    if name in ("opened", "answered", "solved"):
        return f'{name} is "{given.get(name) or ""}"; expected a time with its zone, such as 2026-11-02T10:00Z'
    return f"{name} is missing; expected what happened, or what was asked" if name == "what" else f"{name} is missing"


def report_breaches(archive: Archive, declared: Declarations, name: str, by: str, since: str = "") -> Reconciliation:
    """Open a finding for each promise that the operations log or checks between campaigns show broken, once a month, and for each incident of the log
    that checks contradict; resolve those that a correction of the log, or time, takes back, `since` which change. What became of breaches."""
    promises, now = provider_promises(archive, declared, name), datetime.now(timezone.utc)
    simulated, within = declared.providers[name].simulated, declared.providers[name].sla.claim_within
    broken = {BrokenPromise.of(each): each for each in promises.judged if each.broken and not each.shown_by_trials}
    found = [broken_promise_finding(name, each, within, now, simulated) for each in broken.values()]
    views = archive.findings_of(name, "reliability")
    again = _taken_back(archive, views)
    found = [
        replace(f, finding_id=unsettled_id(name, f"{f.since}", f.kind, f.subject, again)) if f.finding_id in again else f for f in found
    ]
    unsettled = readable_findings(view for view in views if view.state in OPEN_STATES)
    past = {f.subject: f for f in unsettled if BrokenPromise.has(f)}
    gone = tuple((f, f"{_WHY_TAKEN_BACK}{since}") for f in past.values() if f.subject not in broken)
    moved = tuple(
        replace(f, finding_id=past[f.subject].finding_id, state=past[f.subject].state)
        for f in found
        if f.subject in past and (past[f.subject].evidence, past[f.subject].credit) != (f.evidence, f.credit)
    )
    opened = tuple(f for f in found if f.subject not in past)
    day = f"{now:%Y-%m-%d}"
    done = Reconciliation(opened, moved, taken_back=gone)
    apply(archive, done, by=by, seen_in=day)
    apply(archive, reconcile_contradictions(name, promises.contradicted, unsettled, simulated), by=by, seen_in=day)
    return done


_WHY_TAKEN_BACK = "resolved: neither the operations log nor checks show a breach of it"


def _taken_back(archive: Archive, views: Sequence[FindingView]) -> frozenset[str]:
    """Ids of findings that a correction resolved, not a person: what shows the breach again is another finding."""
    resolved = {view.finding_id for view in views if view.state == "resolved"}
    if not resolved:
        return frozenset()
    last = {entry.subject: entry for entry in archive.audit(tuple(sorted(resolved))) if entry.what == "finding_resolved"}
    # Entries from before the cause was stored have no more than the sentence.
    return frozenset(
        name for name, entry in last.items() if entry.detail.get("cause", TAKEN_BACK if entry.why == _WHY_TAKEN_BACK else "") == TAKEN_BACK
    )
