"""Whether the files that the archive points to are there and as they were: raw evidence, and documents in quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.models import Evidence, Expired, Quarantined, Trial
from plumbline.results import ResultStore, addresses, reading

_BATCH = 500


def damaged(session: Session, share: tuple[int, int] = (0, 1)) -> Iterator[str]:
    """Each file that is missing, changed or out of reach, one sentence each. Every file is read whole; what expired is not looked for.

    `share` (k, n): only the files of every n-th trial, from the k-th on. A share a day reads every file once in n days.
    """
    stores = addresses.declared()
    k, n = share
    last: tuple[int, int] = (0, -1)
    while True:
        query = (
            select(
                Evidence.trial_pk,
                Evidence.position,
                Evidence.uri,
                Evidence.sha256,
                Evidence.bytes,
                Trial.uri.label("folder"),
                Trial.trial_id,
                Trial.attempt,
            )
            .join(Trial, Trial.id == Evidence.trial_pk)
            .outerjoin(Expired, (Expired.trial_pk == Evidence.trial_pk) & (Expired.position == Evidence.position))
            .where(Expired.trial_pk.is_(None), Evidence.trial_pk % n == k % n)
            .where((Evidence.trial_pk > last[0]) | ((Evidence.trial_pk == last[0]) & (Evidence.position > last[1])))
            .order_by(Evidence.trial_pk, Evidence.position)
            .limit(_BATCH)
        )
        batch = session.execute(query).all()
        if not batch:
            break
        for row in batch:
            problem = _file(stores, row.folder, row.uri, row.sha256, row.bytes)
            if problem:
                yield f"{row.trial_id}#{row.attempt}: evidence {row.folder}/{row.uri} {problem}"
        last = (batch[-1].trial_pk, batch[-1].position)
    for held in session.execute(select(Quarantined.quarantine_id, Quarantined.uri, Quarantined.sha256).order_by(Quarantined.quarantine_id)):
        folder, _, name = held.uri.rpartition("/")
        problem = _file(stores, folder, name, held.sha256, reading.MOST_BYTES)
        if problem:
            yield f"quarantine {held.quarantine_id}: {held.uri} {problem}"


def _file(stores: Sequence[str], folder: str, name: str, sha256: str, most: int) -> str | None:
    """What is wrong with one file; None if it holds."""
    try:
        # What is away now is reported as away: waiting for each of a million files would hide that the whole store is.
        found, count = ResultStore(addresses.permitted(folder, stores), patience_s=0.0).digest(name, most)
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError, ImportError) as error:
        return f"cannot be read ({error})"
    if count > most:
        return f"has more than the {most:,} bytes that the archive says"
    return None if found == sha256 else f"has SHA-256 {found}; the archive says {sha256}"
