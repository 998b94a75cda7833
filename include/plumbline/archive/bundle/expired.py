"""Which raw files of a campaign are kept no longer, in a bundle: beside what was measured, whose hash never changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.bundle.tables import Row
from plumbline.archive.inserts import insert_new
from plumbline.archive.models import NATURAL_KEY, Expired, Trial

TABLE = Expired.__tablename__


def rows(session: Session, campaign_id: str, trials: Sequence[Row]) -> dict[str, list[Row]]:
    """The table, if the campaign has rows of it; trials by their place in the bundle."""
    key = [getattr(Trial, name) for name in NATURAL_KEY]
    places = {tuple(row[name] for name in NATURAL_KEY): row["id"] for row in trials}
    query = select(Expired, *key).join(Trial, Trial.id == Expired.trial_pk).where(Trial.campaign_id == campaign_id)
    names = [column.name for column in Expired.__table__.columns]
    found = [
        {**{name: getattr(one, name) for name in names}, "trial_pk": places[tuple(named)]} for one, *named in session.execute(query).all()
    ]
    return {TABLE: sorted(found, key=lambda row: (row["trial_pk"], row["position"]))} if found else {}


def take_in(
    session: Session, found: Sequence[Row], trials: Sequence[Row], pks: Mapping[int, int], fresh: Collection[int], home: str
) -> None:
    """Take over what is kept no longer, as deleted already: an import deletes nothing. `fresh`: places of the attempts that are new here.

    Of an attempt that was here before it says nothing, unless its files lie in another store than `home` and at the address that the archive
    has: only this installation says what of its own store is kept.
    """
    uris: dict[int, Any] = dict(session.execute(select(Trial.id, Trial.uri).where(Trial.id.in_(pks.values()))).tuples().all())
    same = {row["id"] for row in trials if uris[pks[row["id"]]] == row["uri"]}
    ours = {row["id"] for row in trials if row["id"] not in fresh and str(row["uri"]).startswith(f"{home.rstrip('/')}/")}
    for row in found:
        if row["trial_pk"] in same - ours:
            values = {**row, "trial_pk": pks[row["trial_pk"]], "removed_at": row["removed_at"] or row["expired_at"]}
            insert_new(session, Expired, values, ["trial_pk", "position"])
