"""Imports a bundle: each campaign entirely or not at all, every measured row made from its document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from plumbline.archive import audit, baselines, quarantine, recording
from plumbline.archive.bundle.lines import AttemptLine, CorrectionLine, ExpiredLine, read_lines, row_line
from plumbline.archive.bundle.manifest import (
    ATTEMPTS_FILE,
    EXPIRED_FILE,
    LEDGER,
    MANIFEST_FILE,
    BadBundle,
    BundleManifest,
    CampaignEntry,
    ImportedCampaign,
    campaign_folder,
    check_files,
    load_manifest,
)
from plumbline.archive.engine import one_line
from plumbline.archive.migrate import head
from plumbline.archive.published import import_published, published_trial_row
from plumbline.archive.records import Action, BaselineView
from plumbline.archive.repository import insert_new
from plumbline.archive.schema import (
    NATURAL_KEY,
    AuditEntry,
    AvailabilityCheck,
    Base,
    Baseline,
    Correction,
    Decision,
    Expired,
    Finding,
    Incident,
    OperationsLog,
    Price,
    PriceReading,
    Quarantined,
    Snapshot,
    Trial,
)
from plumbline.declarations import digest
from plumbline.declarations.addresses import canonical, path_below
from plumbline.results import InvalidResult, Reason, ResultDocument, bounded_json, evidence_files, signing
from plumbline.results.published import PublishedResult
from plumbline.whole_file import sha256_file

_CAMPAIGN_TABLES = ("findings", "incidents", "baselines", "quarantine", "audit")
_LEDGER_TABLES = ("findings", "incidents", "audit", "decisions", "prices", "price_readings", "snapshots", "operations_log", "observations")
_BATCH = 100
_BATCH_BYTES = 2 * 2**20
"""Bytes of documents in one batch; objects take some ten times the memory of their JSON."""
_KEY_PARTS = 7
_PLACE = {*NATURAL_KEY, "trial_id"}

Row = dict[str, Any]
Tables = dict[str, list[Row]]
_Attempt = tuple[AttemptLine, ResultDocument | PublishedResult]
CheckQuality = Callable[[Sequence[ResultDocument]], Mapping[str, tuple[Action, Sequence[Reason]]]]
"""Gives this installation's own verdict on documents, by `trial_id#attempt`."""


class ContradictingBundle(ValueError):
    """The campaign contradicts its documents or the archive, and is refused as a whole."""


@dataclass(frozen=True)
class ImportContext:
    """Author, folder, manifest's SHA-256 and time of an import, the judge of its documents, and this installation's store."""

    folder: Path
    manifest_sha256: str
    by: str
    at: datetime
    judge: CheckQuality | None
    home: str


@dataclass(frozen=True)
class _Held:
    """An attempt of the bundle as the archive holds it now. `new`: this import recorded it."""

    pk: int
    trial_id: str
    attempt: int
    uri: str
    action: Action
    new: bool


def import_bundle(
    writing: Callable[[], AbstractContextManager[Session]],
    folder: Path,
    campaigns: list[str] | None,
    *,
    by: str,
    at: datetime,
    judge: CheckQuality | None,
    home: str,
) -> list[ImportedCampaign]:
    """Take in the campaigns (all if None), each in a transaction of its own; see Archive.import_."""
    manifest = load_manifest(folder)
    chosen = _select_campaigns(manifest, folder, campaigns)
    check_files(folder, {**manifest.ledger, **{name: sha for entry in chosen.values() for name, sha in entry.files.items()}})
    order = ImportContext(folder, sha256_file(folder / MANIFEST_FILE), by, at, judge, home)
    try:
        ledger = _read(folder, LEDGER, manifest.ledger, _LEDGER_TABLES)
    except InvalidResult as error:
        raise BadBundle(str(error)) from error
    done = []
    for campaign_id, entry in chosen.items():
        try:
            with writing() as session:
                done.append(_campaign(session, order, campaign_id, entry))
        except (ContradictingBundle, recording.Refused, InvalidResult, DataError, IntegrityError, OverflowError) as error:
            why = one_line(error)
            done.append(ImportedCampaign(campaign_id, refused=why))
            with writing() as session:
                _write_audit(session, order, "bundle_refused", campaign_id, why, {})
    with writing() as session:
        import_conclusions(session, ledger, None)
        if ledger_rows := {name: len(those) for name, those in ledger.items() if those}:
            _write_audit(session, order, "bundle_imported", LEDGER, "what belongs to no campaign", ledger_rows)
    return done


def _write_audit(session: Session, order: ImportContext, what: str, subject: str, why: str, detail: Mapping[str, Any]) -> None:
    note = {"folder": str(order.folder), "manifest_sha256": order.manifest_sha256, **detail}
    audit.write_entry(
        session, order.at, who=order.by, what=what, subject=subject, why=why, detail=note, once=f"{what} {order.manifest_sha256} {subject}"
    )


def _select_campaigns(manifest: BundleManifest, folder: Path, campaigns: list[str] | None) -> dict[str, CampaignEntry]:
    if manifest.schema_revision > head():
        raise BadBundle(
            f"{folder} was written with the schema {manifest.schema_revision}, which this version does not know; upgrade plumbline"
        )
    unknown = sorted(set(campaigns or ()) - set(manifest.campaigns))
    if unknown:
        raise LookupError(f'{folder} has no campaign "{unknown[0]}"; expected one of {", ".join(manifest.campaigns)}')
    return {name: entry for name, entry in manifest.campaigns.items() if campaigns is None or name in campaigns}


def _read(folder: Path, part: str, files: Mapping[str, str], names: Sequence[str]) -> Tables:
    """The rows of the tables that the manifest names; other files are foreign and are not read."""
    paths = {name: f"{part}/{name}.jsonl" for name in names}
    return {
        name: [line.model_dump() for line in read_lines(folder / path, row_line(name))] for name, path in paths.items() if path in files
    }


def _campaign(session: Session, order: ImportContext, campaign_id: str, entry: CampaignEntry) -> ImportedCampaign:
    below, folder = campaign_folder(campaign_id), order.folder / campaign_folder(campaign_id)
    if f"{below}/{ATTEMPTS_FILE}" not in entry.files:
        raise ContradictingBundle(f"it has no attempts; expected {below}/{ATTEMPTS_FILE}")
    held: dict[str, tuple[AttemptLine, _Held]] = {}
    lines, documents = read_lines(folder / ATTEMPTS_FILE, AttemptLine), folder / "documents"
    notes: list[str] = []
    read = ((line, _document(session, order, campaign_id, entry, line)) for line in lines)
    while attempts := _batch(read, documents):  # a campaign's documents together need not fit into memory
        stricter = _stricter_verdicts(order.judge, attempts)
        for line, document in attempts:
            one = _record(session, line, document, stricter.get(line.document, (line.action, line.reasons)))
            held[line.document] = (line, one)
            if line.correction is not None:
                _insert_correction(session, one, line.correction)
            if one.action != line.action:
                notes.append(f"{one.trial_id}#{one.attempt}: {one.action}ed here ({line.action} in the bundle)")
    if f"{below}/{EXPIRED_FILE}" in entry.files:
        _import_expired(session, order, folder, held)
    notes += import_conclusions(session, _read(order.folder, below, entry.files, _CAMPAIGN_TABLES), campaign_id)
    new = sum(one.new for _, one in held.values())
    if new or notes:
        detail = {"content_hash": entry.files[f"{below}/{ATTEMPTS_FILE}"], "new": new, "known": len(held) - new}
        _write_audit(session, order, "bundle_imported", campaign_id, f"{new} new attempts", detail)
    return ImportedCampaign(campaign_id, new=new, known=len(held) - new, notes=tuple(notes))


def _batch(read: Iterator[_Attempt], documents: Path) -> list[_Attempt]:
    """The next attempts, as many as are judged together: at most _BATCH, and of large documents no more than _BATCH_BYTES."""
    batch: list[_Attempt] = []
    size = 0
    while size < _BATCH_BYTES and len(batch) < _BATCH and (one := next(read, None)) is not None:
        batch.append(one)
        size += (documents / one[0].document).stat().st_size
    return batch


def _document(
    session: Session, order: ImportContext, campaign_id: str, entry: CampaignEntry, line: AttemptLine
) -> ResultDocument | PublishedResult:
    """The document of an attempt; Contradiction if its checksum, signature or place does not hold."""
    name = f"{campaign_folder(campaign_id)}/documents/{line.document}"
    if entry.files.get(name) != line.sha256:
        raise ContradictingBundle(f"{line.document}: no document of this SHA-256 backs the attempt; expected {name}")
    path = order.folder / name
    try:
        bounded_json.check_size(path.stat().st_size, name)
        raw = path.read_bytes()
        kind: type[Any] = PublishedResult if "publisher" in bounded_json.parse_object(raw, name) else ResultDocument
        document: ResultDocument | PublishedResult = bounded_json.validate_model(kind, raw, name)
    except InvalidResult as error:
        raise ContradictingBundle(f"{line.document}: its document does not hold: {error}") from error
    place = _place(document)
    if place["campaign_id"] != campaign_id:
        raise ContradictingBundle(f"{place['trial_id']}: its document is of the campaign {place['campaign_id']}")
    if isinstance(document, ResultDocument):
        _check_series_key(document)
        evidence_files.check_address_form(line.uri)
        keys = recording.signing_keys(session, campaign_id, place["trial_id"])
        signature = signing.verify(document, keys)
        if signature.status == "broken":
            raise ContradictingBundle(f"{place['trial_id']}: {signature.detail}")
        foreign = signature.status != "verified" if keys else signature.status == "verified_as_exported"
        if foreign and _adds_to_own(session, order, document, launched=bool(keys)):
            raise ContradictingBundle(
                f"{place['trial_id']}#{place['attempt']}: this archive launched the trial and knows no such attempt; {signature.detail}"
            )
    return document


def _adds_to_own(session: Session, order: ImportContext, document: ResultDocument, launched: bool) -> bool:
    """Whether the document is a new attempt of a trial that this installation `launched`, as a key of it or an attempt in its own store shows."""
    trial = document.trial
    attempts = session.execute(
        select(Trial.attempt, Trial.checksum, Trial.uri).where(Trial.campaign_id == trial.campaign_id, Trial.trial_id == trial.trial_id)
    ).all()
    if (trial.attempt, document.checksum) in {(attempt, checksum) for attempt, checksum, _ in attempts}:
        return False
    return launched or any(path_below(uri, order.home) for *_, uri in attempts)


def _place(document: ResultDocument | PublishedResult) -> Row:
    """The natural key of the attempt, and its trial's id."""
    row = published_trial_row(document) if isinstance(document, PublishedResult) else document.trial.model_dump(include=_PLACE)
    return {name: row[name] for name in _PLACE}


def _check_series_key(document: ResultDocument) -> None:
    """Contradiction unless the series key names the document's own workload and provider."""
    trial, parts_of = document.trial, document.trial.series_key.split("/")
    where = [trial.provider.name, trial.provider.region, trial.provider.instance_type]
    own = [trial.workload.kind, f"{trial.workload.name}@{trial.workload.version}"]
    if len(parts_of) != _KEY_PARTS or parts_of[:2] != own or parts_of[-3:] != where:
        raise ContradictingBundle(f"{trial.trial_id}: series_key is {trial.series_key}, which does not name its workload and provider")


def _stricter_verdicts(
    judge: CheckQuality | None, attempts: Sequence[tuple[AttemptLine, ResultDocument | PublishedResult]]
) -> dict[str, tuple[Action, Sequence[Reason]]]:
    """Document's name → verdict, of the attempts that this installation rejects and the bundle does not: a verdict is no measurement."""
    ours = {line.document: d for line, d in attempts if isinstance(d, ResultDocument) and line.action != "reject"}
    if judge is None or not ours:
        return {}
    verdicts = judge(list(ours.values()))
    named = {name: verdicts[f"{d.trial.trial_id}#{d.trial.attempt}"] for name, d in ours.items()}
    return {name: verdict for name, verdict in named.items() if verdict[0] == "reject"}


def _record(
    session: Session, line: AttemptLine, document: ResultDocument | PublishedResult, verdict: tuple[Action, Sequence[Reason]]
) -> _Held:
    """Record one attempt like one that was measured here; Contradiction if the archive holds another document of it."""
    place = _place(document)
    if isinstance(document, PublishedResult):
        published = import_published(session, line.recorded_at, [document])
        new, kept_out = bool(published.inserted), bool(published.kept_out)
    else:
        done = recording.record(session, line.recorded_at, document, action=verdict[0], quality_reasons=verdict[1], uri=line.uri)
        new, kept_out = done == "inserted", done == "kept"
    columns = (Trial.id, Trial.uri, Trial.quality_action, Trial.checksum)
    there = session.execute(select(*columns).filter_by(**{name: place[name] for name in NATURAL_KEY})).one()
    if kept_out:
        raise ContradictingBundle(
            f"{place['trial_id']}#{place['attempt']}: checksum is {document.checksum}, but {there.checksum} in the archive; "
            "measurements are never replaced"
        )
    return _Held(there.id, place["trial_id"], place["attempt"], there.uri, there.quality_action, new)


def _insert_correction(session: Session, new: _Held, line: CorrectionLine) -> None:
    """Like `recording.correct`, whose entry in the audit log travels with the bundle."""
    same_trial = select(Trial.series_key, Trial.campaign_id, Trial.slot, Trial.repeat).where(Trial.id == new.pk)
    own = session.execute(same_trial).one()._mapping
    old = session.scalar(select(Trial.id).filter_by(**own, attempt=line.attempt))
    if old is None or line.attempt >= new.attempt:
        raise ContradictingBundle(f"{new.trial_id}#{new.attempt} does not correct an earlier attempt of its own trial")
    values = {"trial_pk": new.pk, "corrects": old, "corrected_at": line.at, "corrected_by": line.by, "why": line.why}
    insert_new(session, Correction, values, ["corrects"])
    if session.scalar(select(Correction.trial_pk).where(Correction.corrects == old)) != new.pk:
        raise ContradictingBundle(f"{new.trial_id}#{line.attempt} was corrected otherwise in the archive")


def _import_expired(session: Session, order: ImportContext, folder: Path, attempts: Mapping[str, tuple[AttemptLine, _Held]]) -> None:
    """Take over what is kept no longer, as deleted already: an import deletes nothing.

    Of an attempt that was here before it says nothing, unless its files lie in another store than this installation's and at the address that
    the archive has: only this installation says what of its own store is kept.
    """
    for gone in read_lines(folder / EXPIRED_FILE, ExpiredLine):
        line, held = attempts.get(gone.document, (None, None))
        if line is None or held is None:
            raise ContradictingBundle(f"{EXPIRED_FILE} names {gone.document}, which is no attempt's document")
        ours = not held.new and path_below(line.uri, order.home)
        if canonical(line.uri) == canonical(held.uri) and not ours:
            values = {**gone.model_dump(exclude={"document"}), "trial_pk": held.pk, "removed_at": gone.removed_at or gone.expired_at}
            insert_new(session, Expired, values, ["trial_pk", "position"])


_TRIAL_ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,250}")
_KEYS: tuple[tuple[type[Base], tuple[str, ...]], ...] = (
    (Finding, ("finding_id",)),
    (Incident, ("finding_id", "channel")),
    (Quarantined, ("quarantine_id",)),
    (Decision, ("decision_id",)),
    (Price, ("price_id",)),
    (PriceReading, ("reading_id",)),
    (Snapshot, ("snapshot_id",)),
    (AvailabilityCheck, ("provider", "kind", "simulated", "at")),
    (OperationsLog, ("entry_id", "revision")),
)


IMPORTED_SUFFIX = " (imported)"
"""Suffix of `who` in entries from another archive's log."""


def import_conclusions(session: Session, conclusions: Tables, campaign_id: str | None) -> tuple[str, ...]:
    """Add what is new of one campaign, or of none; what the archive kept as it had it, in words.

    These are claims of the other archive that no document backs. Contradiction for a row of another campaign, or of what the part does not hold.
    """
    _check_campaign(conclusions, campaign_id)
    notes: list[str] = []
    opened: set[str] = set()
    for model, key in _KEYS:
        listed = conclusions.get(model.__tablename__, ())
        if model is Incident:  # a thread that the other archive has of a finding of this one says nothing of whether people here were told
            listed = [row for row in listed if row["finding_id"] in opened]
        if model is OperationsLog:  # what another archive says, and who says so
            listed = [{**row, "recorded_by": row["recorded_by"].removesuffix(IMPORTED_SUFFIX) + IMPORTED_SUFFIX} for row in listed]
        known = [row for row in listed if not insert_new(session, model, row, key)]
        if model is Finding:
            opened = {row["finding_id"] for row in listed} - {row["finding_id"] for row in known}
            notes += [note for row in known if (note := _other_state(session, row))]
    notes += [note for row in conclusions.get("baselines", ()) if (note := _import_baseline(session, row, conclusions.get("audit", ())))]
    for row in conclusions.get("audit", ()):
        _import_audit(session, row)
    return tuple(notes)


def _check_campaign(conclusions: Tables, campaign_id: str | None) -> None:
    for name in ("findings", "baselines", "quarantine"):
        for row in conclusions.get(name, ()):
            if row["campaign_id"] != campaign_id:
                raise ContradictingBundle(f"{name}: a row is of the campaign {row['campaign_id']}; expected {campaign_id or 'none'}")
    for row in conclusions.get("quarantine", ()):
        content = [row["campaign_id"], row["trial_id"], row["attempt"], row["sha256"]]
        if row["quarantine_id"] != quarantine.id_of(*content) or not _TRIAL_ID.fullmatch(row["trial_id"]) or row["attempt"] < 1:
            raise ContradictingBundle(f"quarantine: {row['quarantine_id']!r} is not the id of its campaign, trial, attempt and SHA-256")
        evidence_files.check_address_form(row["uri"])
    for row in conclusions.get("snapshots", ()):
        if digest(dict(sorted(row["facts"].items()))) != row["facts_hash"]:
            raise ContradictingBundle(f"the facts of the snapshot {row['snapshot_id']} do not hash to {row['facts_hash']}")


def _other_state(session: Session, row: Row) -> str | None:
    state = session.scalars(select(Finding.state).where(Finding.finding_id == row["finding_id"])).one()
    return None if state == row["state"] else f"finding {row['finding_id']} stays {state} ({row['state']} in the bundle)"


def _import_baseline(session: Session, row: Row, log: Sequence[Row]) -> str | None:
    mine = baselines.history(session, row["series_key"])
    if any((b.campaign_id, b.rule, b.accepted_at) == (row["campaign_id"], row["rule"], row["accepted_at"]) for b in mine):
        return None
    # A series is bootstrapped in one archive, and what it is held against moves only by a decision that somebody made in this one.
    if not _continues_baseline(row, mine, log) and (
        (row["rule"] == "bootstrap" and any(b.rule == "bootstrap" for b in mine))
        or (row["superseded_at"] is None and any(b.superseded_at is None for b in mine))
    ):
        return f"baseline of {row['series_key']}: the archive keeps its own, not {row['campaign_id']}"
    session.execute(insert(Baseline), [row])
    return None


def _continues_baseline(row: Row, mine: Sequence[BaselineView], log: Sequence[Row]) -> bool:
    """Whether the bundle's row joined, by the bootstrap rule, exactly the baseline that the archive has of it so far."""
    bootstrapped = [b for b in mine if b.rule == "bootstrap"]
    alike = all((b.superseded_at is None) == (row["superseded_at"] is None) for b in bootstrapped)
    past = (entry["detail"] for entry in log if (entry["what"], entry["subject"]) == ("baseline_accepted", row["series_key"]))
    return (
        bool(bootstrapped)
        and alike
        and {"campaign_id": row["campaign_id"], "rule": row["rule"], "before": [b.campaign_id for b in bootstrapped]} in past
    )


def _import_audit(session: Session, row: Row) -> None:
    """Add an entry of the other archive's log, marked as such: it proves nothing here, and takes no key from an entry of this archive."""
    who = row["who"].removesuffix(IMPORTED_SUFFIX)
    table: Any = AuditEntry.__table__
    same = (table.c[name] == row[name] for name in ("at", "what", "subject", "why"))
    if session.execute(select(table.c.id).where(*same, table.c.who.in_([who, who + IMPORTED_SUFFIX])).limit(1)).first() is None:
        session.execute(insert(AuditEntry), [{**row, "who": who + IMPORTED_SUFFIX, "once_key": None}])
