"""Checks the archive: references, hashes, rows against their documents, and evidence files against their SHA-256."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ForeignKeyConstraint, and_, func, or_, select
from sqlalchemy.orm import Session

from plumbline.archive import published, recording
from plumbline.archive.availability_checks import checks_ahead
from plumbline.archive.engine import utc_now
from plumbline.archive.recording import child_rows, series_row, trial_row
from plumbline.archive.records import IMPORTED_LAUNCHER
from plumbline.archive.retention import SAME_FILE
from plumbline.archive.schema import (
    Base,
    Campaign,
    Document,
    Environment,
    Evidence,
    Expired,
    KeptDeclarations,
    Metric,
    Quarantined,
    Series,
    Snapshot,
    Trial,
    WrittenFile,
)
from plumbline.declarations import digest, installation_paths
from plumbline.declarations.last_valid import KeptCopy
from plumbline.declarations.storage import writes_shelves_to_store
from plumbline.metrics.printable import printable_values
from plumbline.results import ResultDocument, ResultStore, bounded_json, evidence_files, signing
from plumbline.results.launch_record import launch_metrics
from plumbline.results.published import PublishedResult

_BATCH = 200


def row_problems(session: Session) -> list[str]:
    """Damage in the archive's rows, one sentence each; empty if they are sound. `file_problems` checks the evidence."""
    sound = (*_references(session), *_environments(session), *_snapshots(session), *_without_trials(session), *_trials(session))
    return [*sound, *_ahead(session), *_kept_declarations(session)]


def _ahead(session: Session) -> Iterator[str]:
    for one in checks_ahead(session, utc_now()):
        yield (
            f"observations: checks of {one.provider}'s {one.kind} are dated ahead of now ({one.count}), up to {one.last:%Y-%m-%d %H:%M} UTC: a wrong "
            "clock wrote them, and they do not count"
        )


def _kept_declarations(session: Session) -> Iterator[str]:
    for row in session.scalars(select(KeptDeclarations).order_by(KeptDeclarations.folder)):
        if not KeptCopy(row.sha256, row.packed).content:
            yield f"declarations of {row.folder}: the kept copy does not have the SHA-256 {row.sha256}"


def _references(session: Session) -> Iterator[str]:
    for table in Base.metadata.sorted_tables:
        for constraint in (c for c in table.constraints if isinstance(c, ForeignKeyConstraint)):
            parent = constraint.referred_table.alias()
            pairs = [(element.parent, parent.c[element.column.name]) for element in constraint.elements]
            query = (
                select(func.count())
                .select_from(table.outerjoin(parent, and_(*(child == target for child, target in pairs))))
                .where(*(child.is_not(None) for child, _ in pairs), or_(*(target.is_(None) for _, target in pairs)))
            )
            broken = session.scalar(query)
            if broken:
                names = ", ".join(column.name for column in constraint.columns)
                yield f"{table.name}: {broken} rows name a {names} that {constraint.referred_table.name} does not have"


def _environments(session: Session) -> Iterator[str]:
    for row in session.execute(select(Environment.environment_hash, Environment.facts)):
        actual = digest(dict(sorted(row.facts.items())))
        if actual != row.environment_hash:
            yield f"environment {row.environment_hash}: the facts hash to {actual}"


def _snapshots(session: Session) -> Iterator[str]:
    for row in session.execute(select(Snapshot.snapshot_id, Snapshot.provider, Snapshot.facts, Snapshot.facts_hash)):
        actual = digest(dict(sorted(row.facts.items())))
        if actual != row.facts_hash:
            yield f"snapshot {row.snapshot_id} of {row.provider}: the facts hash to {actual}, not to {row.facts_hash}"


def _without_trials(session: Session) -> Iterator[str]:
    """Rows that belong to a trial which the archive does not have."""
    pairs = (
        (Campaign.campaign_id, Trial.campaign_id, "campaign"),
        (Series.series_key, Trial.series_key, "series"),
        (Environment.environment_hash, Trial.environment_hash, "environment"),
    )
    for key, named, what in pairs:
        query = select(key).where(~select(Trial.id).where(named == key).exists()).order_by(key)
        for name in session.scalars(query):
            yield f"{what} {name}: no trial and so no document backs its row"


def _trials(session: Session) -> Iterator[str]:
    last = 0
    while True:
        batch = session.scalars(select(Trial).where(Trial.id > last).order_by(Trial.id).limit(_BATCH)).all()
        if not batch:
            return
        for trial in batch:
            yield from trial_problems(session, trial)
        last = batch[-1].id
        session.expunge_all()  # a million trials must not pile up in memory


def trial_problems(session: Session, trial: Trial) -> Iterator[str]:
    """Damage in one trial: its document, or a row that contradicts the document."""
    name = f"{trial.trial_id}#{trial.attempt}"
    try:
        content = session.scalars(select(Document.content).where(Document.trial_pk == trial.id)).first()
    except (zlib.error, UnicodeDecodeError) as error:
        yield f"{name}: its document cannot be unpacked ({error})"
        return
    if content is None:
        yield f"{name}: its document is missing"
        return
    try:
        model = PublishedResult if trial.launcher == IMPORTED_LAUNCHER else ResultDocument
        document: ResultDocument | PublishedResult = model.model_validate_json(content)
    except ValidationError as error:
        yield f"{name}: its document does not hold: {bounded_json.first_error(error)}"
        return
    for column, expected in _columns(trial, document).items():
        stored = getattr(trial, column)
        if stored != _as_stored(expected):
            yield f"{name}: {column} is {stored}; its document says {expected}"
    series = published.published_series_row(document) if isinstance(document, PublishedResult) else series_row(document)
    there = session.get(Series, trial.series_key)
    for column, expected in series.items():
        if there is not None and getattr(there, column) != _as_stored(expected):
            yield f"{name}: {column} of its series is {getattr(there, column)}; its document says {expected}"
    yield from _metrics(session, name, trial, document)
    yield from _parts(session, name, trial, document)
    if isinstance(document, ResultDocument):
        stored = signing.verify(document, recording.signing_keys(session, trial.campaign_id, trial.trial_id))
        if stored.status == "broken":
            yield f"{name}: {stored.detail}"


def _as_stored(value: Any) -> Any:
    """A document's value as a column has it: texts without control characters."""
    return printable_values(value) if isinstance(value, str | list) else value


_NOT_IN_DOCUMENT = ("quality_action", "quality_reasons", "uri", "recorded_at")
"""Columns of a trial that its document does not hold."""


def _columns(trial: Trial, document: ResultDocument | PublishedResult) -> dict[str, Any]:
    if isinstance(document, PublishedResult):
        return published.published_trial_row(document)
    made = trial_row(document, "accept", (), trial.uri, trial.recorded_at)
    return {column: value for column, value in made.items() if column not in _NOT_IN_DOCUMENT}


def _parts(session: Session, name: str, trial: Trial, document: ResultDocument | PublishedResult) -> Iterator[str]:
    for model, rows in () if isinstance(document, PublishedResult) else child_rows(document):
        table = model.__table__
        names = [column.name for column in table.columns if column.name != "trial_pk"]
        stored = session.execute(
            select(*(table.c[column] for column in names)).where(table.c.trial_pk == trial.id).order_by(table.c.position)
        )
        expected = [tuple(_as_stored(row[column]) for column in names) for row in rows]
        if [tuple(row) for row in stored] != expected:
            yield f"{name}: its rows of {table.name} are not those of its document"


def _metrics(session: Session, name: str, trial: Trial, document: ResultDocument | PublishedResult) -> Iterator[str]:
    query = select(Metric.phase, Metric.metric, Metric.statistic, Metric.value).where(Metric.trial_pk == trial.id)
    stored = {(m.phase, m.metric, m.statistic): m.value for m in session.execute(query)}
    for row in document.metrics:
        key = (row.phase, row.metric, row.statistic)
        if key not in stored:
            if trial.quality_action != "reject":
                yield f"{name}: {' '.join(key)} is in its document but not in the archive"
        elif stored[key] != row.value:
            yield f"{name}: {' '.join(key)} is {stored[key]}; its document says {row.value}"
    launched = launch_metrics(document.launch, document.timeline) if isinstance(document, ResultDocument) and document.launch else ()
    backed = {(row.phase, row.metric, row.statistic): row.value for row in launched}
    for key in sorted(stored.keys() - {(row.phase, row.metric, row.statistic) for row in document.metrics}):
        if key not in backed:
            yield f"{name}: {' '.join(key)} is {stored[key]}, and no document backs it"
        elif stored[key] != backed[key]:
            yield f"{name}: {' '.join(key)} is {stored[key]}; the launch in its document says {backed[key]}"


_FILE_BATCH = 500


def file_problems(session: Session, share: tuple[int, int] = (0, 1)) -> Iterator[str]:
    """Each file that is missing, changed or out of reach, one sentence each. Every file is read whole; expired files are skipped, and those that lie
    outside the declared stores (`files_elsewhere`), such as of a campaign that was measured on another machine.

    `share` (k, n): only the files of every n-th trial, from the k-th on. A share a day reads every file once in n days.
    """
    stores = evidence_files.readable_stores()
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
            .outerjoin(Expired, SAME_FILE)
            .where(Expired.trial_pk.is_(None), Evidence.trial_pk % n == k % n)
            .where((Evidence.trial_pk > last[0]) | ((Evidence.trial_pk == last[0]) & (Evidence.position > last[1])))
            .order_by(Evidence.trial_pk, Evidence.position)
            .limit(_FILE_BATCH)
        )
        batch = session.execute(query).all()
        if not batch:
            break
        for row in batch:
            if evidence_files.lies_elsewhere(row.folder, stores):
                continue
            problem = _file_problem(stores, row.folder, row.uri, row.sha256, row.bytes)
            if problem:
                yield f"{row.trial_id}#{row.attempt}: evidence {row.folder}/{row.uri} {problem}"
        last = (batch[-1].trial_pk, batch[-1].position)
    for quarantined in session.execute(
        select(Quarantined.quarantine_id, Quarantined.uri, Quarantined.sha256).order_by(Quarantined.quarantine_id)
    ):
        folder, _, name = quarantined.uri.rpartition("/")
        if evidence_files.lies_elsewhere(folder, stores):
            continue
        problem = _file_problem(stores, folder, name, quarantined.sha256, bounded_json.MAX_BYTES)
        if problem:
            yield f"quarantine {quarantined.quarantine_id}: {quarantined.uri} {problem}"
    yield from _written_problems(session, share)


def _written_problems(session: Session, share: tuple[int, int]) -> Iterator[str]:
    """Of reports, Data Docs and acceptance sheets in the store: the same share of them."""
    here, (k, n) = installation_paths(), share
    if not writes_shelves_to_store(here):
        return
    for row in session.scalars(select(WrittenFile).order_by(WrittenFile.kind, WrittenFile.name, WrittenFile.file)):
        if zlib.crc32(row.path.encode()) % n != k % n:
            continue
        folder, _, name = f"{here.results_url.rstrip('/')}/{row.path}".rpartition("/")
        problem = _file_problem((here.results_url,), folder, name, row.sha256, row.bytes)
        if problem and _is_in_force(session, row):
            yield f"{row.kind} {row.name}: {folder}/{name} {problem}; write it again"


def _is_in_force(session: Session, row: WrittenFile) -> bool:
    """Whether it was not written again since this session began."""
    with Session(session.get_bind()) as now:
        newest = now.get(WrittenFile, (row.kind, row.name, row.file))
        return newest is not None and newest.path == row.path


def files_elsewhere(session: Session) -> int:
    """How many files of evidence and quarantine lie outside the declared stores and so cannot be read here."""
    stores, elsewhere = evidence_files.readable_stores(), 0
    kept = (
        select(Trial.uri, func.count())
        .join(Evidence, Evidence.trial_pk == Trial.id)
        .outerjoin(Expired, SAME_FILE)
        .where(Expired.trial_pk.is_(None))
        .group_by(Trial.uri)
    )
    for query in (kept, select(Quarantined.uri, func.count()).group_by(Quarantined.uri)):
        elsewhere += sum(count for uri, count in session.execute(query).tuples() if evidence_files.lies_elsewhere(uri, stores))
    return elsewhere


def _file_problem(stores: Sequence[str], folder: str, name: str, sha256: str, most: int) -> str | None:
    """The damage of one file; None if it is sound."""
    try:
        # What is away now is reported as away: waiting for each of a million files would hide that the whole store is.
        digest, count = ResultStore(evidence_files.check_address(folder, stores), patience_s=0.0).digest(name, most)
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError, ImportError) as error:
        return f"cannot be read ({error})"
    if count > most:
        return f"has more than the {most:,} bytes that the archive says"
    return None if digest == sha256 else f"has SHA-256 {digest}; the archive says {sha256}"
