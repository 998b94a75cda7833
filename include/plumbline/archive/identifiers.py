"""Completion and search of identifiers."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import case, literal, select, union
from sqlalchemy.orm import Session

from plumbline.archive.schema import Campaign, Decision, Finding, Series, Trial
from plumbline.metrics.formatting import expected_names, join_words

Identified = Literal["finding", "campaign", "provider", "trial"]
_COLUMNS = {"finding": Finding.finding_id, "campaign": Campaign.campaign_id, "provider": Series.provider, "trial": Trial.trial_id}
_LISTS = {"finding": "findings --all", "campaign": "campaigns", "provider": "campaigns", "trial": "scorecard CAMPAIGN --json"}
_SEARCHED: tuple[Identified, ...] = ("finding", "campaign", "trial")
_NAMED = 3


def identifiers(session: Session, kind: Identified, prefix: str, most: int) -> list[str]:
    """Identifiers with this beginning, sorted, up to the given number."""
    column = _COLUMNS[kind]
    query = select(column).where(column.startswith(prefix, autoescape=True)).distinct()
    return list(session.scalars(query.order_by(column).limit(most)))


def complete_identifier(session: Session, *kinds: Identified, typed: str) -> str:
    """The identifier of one of these kinds that is `typed`, or the only one that begins so. LookupError without one, or with several."""
    columns = [_COLUMNS[kind] for kind in kinds]
    if any(session.scalar(select(column).where(column == typed).limit(1)) for column in columns):
        return typed
    named = {kind: identifiers(session, kind, typed, _NAMED + 1) if typed else [] for kind in kinds}
    # A trial's id begins with its campaign's.
    own = [trial for trial in named.get("trial", []) if any(trial.startswith(f"{c}.") for c in named.get("campaign", []))]
    found = [name for names in named.values() for name in names if name not in own]
    if len(found) == 1:
        return found[0]
    kind = f"{', '.join(kinds[:-1])} or {kinds[-1]}" if kinds[1:] else kinds[0]
    if found:
        more = " …" if len(found) > _NAMED else ""
        raise LookupError(f'"{typed}" is how several begin: {join_words(found[:_NAMED])}{more}; expected more of it')
    names = session.scalars(union(*(select(column) for column in columns)))
    raise LookupError(
        f'the archive has no {kind} "{typed}"; expected one such as {expected_names(typed, names)} (plumbline {_LISTS[kinds[0]]})'
    )


def find_identifiers(session: Session, part: str, most: int) -> list[tuple[str, str, str]]:
    """(kind, identifier, place) of findings, campaigns, trials and stored decisions that contain a text, those that begin so first; at most so many
    of a kind. `place`: team and kind of a decision, else empty."""
    found = []
    own = Decision.team + "/" + Decision.kind
    kinds: tuple[tuple[str, Any, Any], ...] = (*((k, _COLUMNS[k], literal("")) for k in _SEARCHED), ("decision", Decision.decision_id, own))
    for kind, column, place in kinds:
        begins = case((column.startswith(part, autoescape=True), 0), else_=1)
        query = select(column, place).where(column.contains(part, autoescape=True)).distinct().order_by(begins, column).add_columns(begins)
        found += [(order, kind, name, where) for name, where, order in session.execute(query.limit(most))]
    return [(kind, name, where) for _, kind, name, where in sorted(found, key=lambda each: each[0])]
