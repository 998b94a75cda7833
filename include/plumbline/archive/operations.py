"""The operations log. Rows are only added: each is an entry's whole state, and the newest revision counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from plumbline.archive.repository import insert_new, where_equal
from plumbline.archive.schema import OperationsLog
from plumbline.declarations import digest
from plumbline.results.operations import LogEntry, LogEntryView


def log_entry(session: Session, now: datetime, entry: LogEntry, *, by: str, entry_id: str | None = None) -> LogEntryView:
    """Add an entry, or with `entry_id` a further state of it. The same state again adds nothing, so that a retry does not.

    LookupError for an unknown id. ValueError for an entry that cannot be true, that is logged with other content, or is another than `entry_id`.
    """
    entry.check(now)
    name = entry_id or digest([entry.provider, entry.kind, entry.opened.isoformat(), entry.what])[:12]
    last = next(iter((operations_history if entry_id else _states)(session, name)[-1:]), None)
    if last is not None:
        if asdict(entry).items() <= asdict(last).items():
            return last
        if entry_id is None or (last.provider, last.kind) != (entry.provider, entry.kind):
            raise ValueError(
                f"{name} is {last.kind} of {last.provider}, with other content; expected --id {name} to correct it, or a new entry"
            )
    revision = last.revision + 1 if last else 1
    row = {**asdict(entry), "entry_id": name, "revision": revision, "recorded_at": now, "recorded_by": by}
    if not insert_new(session, OperationsLog, row, ["entry_id", "revision"]):
        raise ValueError(f"{name} was changed at the same time; expected one change after the other: try again")
    return _states(session, name)[-1]


def operations_history(session: Session, entry_id: str) -> list[LogEntryView]:
    """All states of an entry, oldest first; LookupError for an unknown one."""
    if not (states := _states(session, entry_id)):
        raise LookupError(f'the operations log has no entry "{entry_id}"; `plumbline log --list` shows them')
    return states


def _states(session: Session, entry_id: str) -> list[LogEntryView]:
    query = select(OperationsLog).where(OperationsLog.entry_id == entry_id).order_by(OperationsLog.revision)
    return _views(session.scalars(query))


def _views(rows: Iterable[OperationsLog]) -> list[LogEntryView]:
    """An entry's states, oldest first, each with when its window was noted first."""
    states: list[LogEntryView] = []
    for row in rows:
        values = {name: getattr(row, name) for name in LogEntryView.__dataclass_fields__ if name != "noted_at"}
        noted = row.recorded_at
        for before in reversed(states):
            if not _covers(before, row):
                break
            noted = before.recorded_at
        states.append(LogEntryView(**values, noted_at=noted))
    return states


def _covers(before: LogEntryView, now: OperationsLog) -> bool:
    """Whether a state excused all of a later one's window already."""
    lasted = before.solved is None or (now.solved is not None and now.solved <= before.solved)
    return before.opened <= now.opened and lasted and (before.whose != "us" or now.whose == "us")


def operations(session: Session, provider: str | None = None, kind: str | None = None) -> list[LogEntryView]:
    """Each entry in its newest state, the last opened first; only of the provider and kind that are named."""
    query = where_equal(select(OperationsLog), (OperationsLog.provider, provider), (OperationsLog.kind, kind))
    states: dict[str, list[OperationsLog]] = {}
    for row in session.scalars(query.order_by(OperationsLog.revision)):
        states.setdefault(row.entry_id, []).append(row)
    return sorted((_views(rows)[-1] for rows in states.values()), key=lambda entry: (entry.opened, entry.entry_id), reverse=True)


def operations_logged(session: Session) -> dict[str, int]:
    """How many states of entries each provider has: it grows with each change of the log."""
    query = select(OperationsLog.provider, func.count()).group_by(OperationsLog.provider)
    return dict(session.execute(query).tuples().all())
