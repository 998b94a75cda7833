"""Recording one attempt, whatever its document is like: believed, rejected, or in quarantine. No Airflow in here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from plumbline.results import BadResult, Reason, ResultDocument, ResultStore, quarantine, signing
from plumbline.results.quarantine import Note

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.views import Action

Outcome = Literal["inserted", "unchanged", "kept", "corrected", "quarantined"]
_WHO, _WHY = "record", "the result reached the store after its trial was recorded as missing"
_FILES = ("trial.json", "result.json", "collected.json", "launch.log")


def recorded(archive: Archive, store: ResultStore, folder: str, action: Action, reasons: Sequence[Reason]) -> Outcome:
    """Record an attempt's collected document with the verdict of the quality checks.

    "quarantined": nothing was recorded, because the document does not hold or contradicts the archive. A rejected document is recorded and
    listed in quarantine too, and so is one that `collect` did not believe and recorded as failed in its place.
    "corrected": the archive held the trial as missing, and the document replaces that row.
    """
    from plumbline.archive import Refused
    from plumbline.orchestration.correcting import record_as_correction
    from plumbline.results.launch_metrics import outside_metrics

    for file in _FILES:
        held = quarantine.note(store, folder, file)
        if held is not None:
            listed(archive, store, folder, held)
    try:
        document = _verified(archive, store, folder)
        extra = outside_metrics(document.launch) if document.launch else ()
        said: Outcome = archive.record(document, action=action, quality_reasons=reasons, uri=store.uri(folder), extra_metrics=extra)
        missing = _missing_before(archive, document) if said == "kept" or document.trial.attempt > 1 else None
        if missing == document.trial.attempt:
            record_as_correction(archive, document, missing, store.uri(folder), action, reasons, _WHO, _WHY)
            said = "corrected"
        elif missing is not None:
            archive.correct(
                document, missing, by=_WHO, why=_WHY, action=action, quality_reasons=reasons, uri=store.uri(folder), extra_metrics=extra
            )
            said = "corrected"
    except (BadResult, Refused) as error:
        listed(archive, store, folder, quarantine.put(store, folder, "collected.json", str(error)))
        return "quarantined"
    if action == "reject":
        why = "; ".join(f"{reason.code}: {reason.detail}" for reason in reasons) or "rejected by the quality checks"
        listed(archive, store, folder, quarantine.put(store, folder, "collected.json", why))
    return said


def _verified(archive: Archive, store: ResultStore, folder: str) -> ResultDocument:
    """The collected document. The store may be a bucket that others write to, so its signature is checked again; BadResult if it fails."""
    document = store.collected(folder)
    if store.folder(document.trial) != folder:
        raise BadResult(f"{store.uri(folder)}/collected.json is of {store.folder(document.trial)}; expected a document of its own attempt")
    try:
        return signing.collected(document, archive.signing_keys(document.trial.campaign_id, document.trial.trial_id))
    except ValueError as error:
        raise BadResult(f"{store.uri(folder)}/collected.json: {error}") from error


def _missing_before(archive: Archive, document: ResultDocument) -> int | None:
    """The attempt of the trial, this one or an earlier one, that the archive holds as missing; None if it holds none so."""
    trial = document.trial
    held = archive.trials(trial.campaign_id, trial.series_key) if document.validity.status != "missing" else ()
    attempts = [t for t in held if t.trial_id == trial.trial_id and t.attempt <= trial.attempt]
    return next((t.attempt for t in attempts if t.status == "missing" and not t.corrected), None)


def listed(archive: Archive, store: ResultStore, folder: str, note: Note) -> None:
    """List in the archive what the store keeps in quarantine."""
    from plumbline.archive import QuarantineRecord

    campaign_id, trial_id, attempt = folder.split("/")
    archive.quarantine(
        QuarantineRecord(
            campaign_id=campaign_id,
            trial_id=trial_id,
            attempt=int(attempt.rpartition("-")[2]),
            uri=store.uri(note.path),
            sha256=note.sha256,
            reason=note.reason,
        )
    )
