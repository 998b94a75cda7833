"""Record attempts in the archive: verified, rejected or quarantined; override a verdict, retry quarantined documents."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from plumbline.archive import Archive, QuarantineRecord, Refused, TrialView, open_archive
from plumbline.archive.audit import require_author
from plumbline.archive.records import Action
from plumbline.archive.shelves import shelf
from plumbline.declarations import Trial
from plumbline.declarations.addresses import path_below
from plumbline.launch import stores
from plumbline.launch.collect import contradiction
from plumbline.quality import check
from plumbline.results import InvalidResult, Reason, ResultDocument, ResultStore, evidence_files, quarantine, signing
from plumbline.results.evidence_files import damaged_files
from plumbline.results.quarantine import QUARANTINE_FOLDER, QuarantineNote
from plumbline.workflows.lane_outcome import LaneOutcome, Row, each_trial

BY_HAND = "verdict_by_hand"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryOutcome:
    """`attempt`: the attempt that the document is recorded as; None if it stays in quarantine, for `reason`."""

    quarantine_id: str
    attempt: int | None
    reason: str


def override_verdict(archive: Archive, trial_id: str, attempt: int, action: Action, by: str, why: str) -> int:
    """Give a recorded attempt another verdict: its document is recorded as a new attempt that replaces it; the new number.

    LookupError without such an attempt; ValueError for an empty author or reason, for its present verdict, or if it was corrected already.
    """
    require_author(by, why, "gives the verdict")
    document = archive.document(trial_id, attempt)
    if document is None:
        raise LookupError(_unknown_attempt(archive, trial_id, attempt))
    view = _attempts(archive, document.trial)[attempt]
    if view.corrected:
        raise ValueError(f"{trial_id}#{attempt} was corrected already; expected the attempt that replaced it")
    if view.quality_action == action:
        raise ValueError(f"{trial_id}#{attempt} has the verdict {action} already; expected another one")
    return record_as_correction(archive, document, attempt, view.uri, action, (Reason(code=BY_HAND, detail=why),), by, why)


def retry_quarantined(archive: Archive, quarantine_id: str, by: str) -> RetryOutcome:
    """Check a quarantined document again: if it is valid now and passes the quality checks, it replaces its attempt and is released.

    LookupError for an unknown id; FileNotFoundError if the store no longer has it.
    """
    row = archive.quarantined_one(quarantine_id)
    if row.state == "released":
        return RetryOutcome(quarantine_id, None, "already released")
    try:
        store = ResultStore(evidence_files.check_address(row.uri).rpartition(f"/{QUARANTINE_FOLDER}/")[0])
    except InvalidResult as error:
        return RetryOutcome(quarantine_id, None, str(error))
    folder = f"{row.campaign_id}/{row.trial_id}/attempt-{row.attempt}"
    path = str(path_below(row.uri, store.url))
    try:
        document = _verified_document(store, folder, path, archive.signing_keys(row.campaign_id, row.trial_id))
    except ValueError as error:  # an invalid document or signature
        return RetryOutcome(quarantine_id, None, str(error))
    action, reasons = _checked(document)
    if action == "reject":
        return RetryOutcome(quarantine_id, None, "; ".join(f"{reason.code}: {reason.detail}" for reason in reasons))
    why = f"quarantined: {row.reason}; valid now"
    recorded = archive.trials(row.campaign_id, document.trial.series_key)
    if any((t.trial_id, t.attempt) == (row.trial_id, row.attempt) for t in recorded):
        attempt = record_as_correction(archive, document, row.attempt, store.uri(folder), action, reasons, by, why)
    else:
        attempt = row.attempt
        archive.record(document, action=action, quality_reasons=reasons, uri=store.uri(folder))
    archive.release(quarantine_id, by, why)
    return RetryOutcome(quarantine_id, attempt, why)


def retry_all_quarantined(archive: Archive, by: str) -> list[RetryOutcome]:
    """Check every quarantined document again; one that the archive refuses or the store has lost blocks no other."""
    done = []
    for row in archive.quarantined():
        try:
            done.append(retry_quarantined(archive, row.quarantine_id, by))
        except (Refused, FileNotFoundError) as error:
            done.append(RetryOutcome(row.quarantine_id, None, str(error)))
    return done


def _verified_document(store: ResultStore, folder: str, path: str, keys: Mapping[int, str]) -> ResultDocument:
    document = store.document_at(path)
    wrong = stores.evidence_violations(document) or damaged_files(store, document)
    if document.trial != store.trial(folder):
        wrong.append(f"{store.uri(path)} is of another trial than {folder}/trial.json")
    collected = path.endswith("collected.json")
    if collected and (why := contradiction(store, folder, document, keys)):
        wrong.append(why)
    if wrong:
        raise InvalidResult("; ".join(wrong))
    document = signing.verify_collected(document, keys) if collected else signing.verify_delivered(document, keys)
    record = store.launch(folder)
    return document if record is None else document.with_launch(record)


def _checked(document: ResultDocument) -> tuple[Action, tuple[Reason, ...]]:
    name = f"{document.trial.trial_id}-again"
    with shelf("data_docs").writing(name) as folder:
        report = check([document], [document.trial], folder.parent, name)
    verdict = report.verdicts[f"{document.trial.trial_id}#{document.trial.attempt}"]
    return verdict.action, verdict.reasons


def record_as_correction(
    archive: Archive,
    document: ResultDocument,
    corrects: int,
    evidence_of: str,
    action: Action,
    reasons: Sequence[Reason],
    by: str,
    why: str,
) -> int:
    """Record the document as the trial's next attempt in the place of attempt `corrects`, then store it with its evidence; the new number.

    Interrupted anywhere, the same call, or `complete_corrections`, does the rest: the store's folder is skipped by `collect` from its first file on,
    and holds a document only once the archive does."""
    home = stores.home()
    attempts = _attempts(archive, document.trial)
    for attempt in (n for n in attempts if n > corrects):
        if (done := _as_attempt(document, attempt)).checksum == attempts[attempt].checksum:
            _store_correction(home, done, evidence_of)
            return attempt
    trial = stores.next_attempt(document.trial.model_copy(update={"attempt": max(attempts) + 1}), home)
    new = _as_attempt(document, trial.attempt)
    folder = home.folder(trial)
    home.put_correction(trial, evidence_of)
    archive.correct(new, corrects, by=by, why=why, action=action, quality_reasons=reasons, uri=home.uri(folder))
    _store_correction(home, new, evidence_of)
    return trial.attempt


def complete_corrections(archive: Archive, campaign_id: str) -> None:
    """Store the documents and evidence of the campaign's recorded corrections that were interrupted before that."""
    home = stores.home()
    for view in archive.trials(campaign_id):
        folder = f"{campaign_id}/{view.trial_id}/attempt-{view.attempt}"
        if view.attempt == 1 or path_below(view.uri, home.url) != folder or home.exists(f"{folder}/collected.json"):
            continue
        evidence_of, document = home.correction(folder), archive.document(view.trial_id, view.attempt)
        if evidence_of is not None and document is not None:
            _store_correction(home, document, evidence_of)


def _as_attempt(document: ResultDocument, attempt: int) -> ResultDocument:
    """The document as another attempt of its trial, with the number that was signed."""
    fields = {name: getattr(document, name) for name in type(document).model_fields if name not in ("trial", "checksum")}
    if (signature := document.signature) is not None:
        fields["signature"] = signature.model_copy(update={"attempt": signature.attempt or document.trial.attempt})
    return ResultDocument.sealed(trial=document.trial.model_copy(update={"attempt": attempt}), **fields)


def _store_correction(home: ResultStore, document: ResultDocument, evidence_of: str) -> None:
    folder = home.folder(document.trial)
    if home.exists(f"{folder}/collected.json"):
        return
    if (before := _readable(evidence_of)) is not None:
        for item in document.evidence:
            with suppress(FileNotFoundError):  # lost evidence must not block the correction; verify names it
                stores.copy_evidence(item, before, "", home, folder)
        if gone := evidence_files.read_expired(before, ""):
            evidence_files.record_expired(home, folder, gone.files, gone.expired_at, gone.rule)
    home.put_collected(document)


def _readable(folder: str) -> ResultStore | None:
    """The attempt's folder as a store; None outside of the declared stores, as for an imported campaign."""
    try:
        return ResultStore(evidence_files.check_address(folder))
    except InvalidResult as error:
        _log.warning("its evidence is not copied: %s", error)
        return None


def _unknown_attempt(archive: Archive, trial_id: str, attempt: int) -> str:
    if archive.imported(trial_id) is not None:
        return f"{trial_id} is imported; its publisher's verdict cannot be changed"
    last = archive.document(trial_id)
    if last is None:
        return f'the archive has no trial "{trial_id}"; reports and campaign pages name the trials'
    return f"{trial_id} has no attempt {attempt}; expected one of {', '.join(map(str, _attempts(archive, last.trial)))}"


def _attempts(archive: Archive, trial: Trial) -> dict[int, TrialView]:
    """The recorded attempts of a trial by number, in their order."""
    return {t.attempt: t for t in archive.trials(trial.campaign_id, trial.series_key) if t.trial_id == trial.trial_id}


RecordOutcome = Literal["inserted", "unchanged", "kept", "corrected", "quarantined"]
_AUTHOR, _LATE_RESULT = "record", "the result reached the store after its trial was recorded as missing"
_FILES = ("trial.json", "result.json", "collected.json", "launch.log")


def record_attempt(archive: Archive, store: ResultStore, folder: str, action: Action, reasons: Sequence[Reason]) -> RecordOutcome:
    """Record an attempt's collected document with its quality verdict.

    "quarantined": nothing was recorded, because the document is invalid or contradicts the archive. Rejected documents are recorded and listed
    in quarantine, as are those that `collect` replaced with a failure. "corrected": the document replaces the trial's row of status missing.
    """
    for file in _FILES:
        note = quarantine.read_note(store, folder, file)
        if note is not None:
            list_quarantined(archive, store, folder, note)
    try:
        document = _verified(archive, store, folder)
        outcome: RecordOutcome = archive.record(document, action=action, quality_reasons=reasons, uri=store.uri(folder))
        if outcome == "kept":
            complete_corrections(archive, document.trial.campaign_id)
        missing = _missing_before(archive, document) if outcome == "kept" or document.trial.attempt > 1 else None
        if missing == document.trial.attempt:
            record_as_correction(archive, document, missing, store.uri(folder), action, reasons, _AUTHOR, _LATE_RESULT)
            outcome = "corrected"
        elif missing is not None:
            archive.correct(document, missing, by=_AUTHOR, why=_LATE_RESULT, action=action, quality_reasons=reasons, uri=store.uri(folder))
            outcome = "corrected"
    except (InvalidResult, Refused) as error:
        list_quarantined(archive, store, folder, quarantine.put(store, folder, "collected.json", str(error)))
        return "quarantined"
    if action == "reject":
        why = "; ".join(f"{reason.code}: {reason.detail}" for reason in reasons) or "rejected by the quality checks"
        list_quarantined(archive, store, folder, quarantine.put(store, folder, "collected.json", why))
    return outcome


def _verified(archive: Archive, store: ResultStore, folder: str) -> ResultDocument:
    """The collected document, checked again unless the archive has it already: others may write to a bucket. InvalidResult if it fails."""
    document = store.collected(folder)
    trial = document.trial
    where = f"{store.uri(folder)}/collected.json"
    if store.folder(trial) != folder:
        raise InvalidResult(f"{where} is of {store.folder(trial)}; expected a document of its own attempt")
    keys = archive.signing_keys(trial.campaign_id, trial.trial_id)
    known = _attempts(archive, trial).get(trial.attempt)
    if (known is None or known.checksum != document.checksum) and (why := contradiction(store, folder, document, keys)):
        raise InvalidResult(f"{where}: {why}")
    try:
        return signing.verify_collected(document, keys)
    except ValueError as error:
        raise InvalidResult(f"{where}: {error}") from error


def _missing_before(archive: Archive, document: ResultDocument) -> int | None:
    """The trial's attempt, this or an earlier one, with status missing; None without one."""
    attempts = _attempts(archive, document.trial) if document.validity.status != "missing" else {}
    upto = (t for n, t in attempts.items() if n <= document.trial.attempt)
    return next((t.attempt for t in upto if t.status == "missing" and not t.corrected), None)


def list_quarantined(archive: Archive, store: ResultStore, folder: str, note: QuarantineNote) -> None:
    """List in the archive a file of the store's quarantine."""
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


def record_group(checked: Iterable[Mapping[str, Any]]) -> LaneOutcome:
    """Record the checked trials of one lane, each in transactions of its own: repeating writes nothing twice."""
    with open_archive() as archive:
        return each_trial(checked, partial(record_trial, archive), "recorded")


def record_trial(archive: Archive, checked: Mapping[str, Any]) -> Row:
    """Write every attempt of one trial to the archive with its verdict; rejected ones are never compared. Invalid documents go into quarantine."""
    store = stores.home()
    done = [
        record_attempt(
            archive,
            store,
            f"{checked['campaign_id']}/{checked['trial_id']}/attempt-{verdict['attempt']}",
            verdict["action"],
            tuple(Reason(**reason) for reason in verdict["reasons"]),
        )
        for verdict in checked["verdicts"]
    ]
    return {"campaign_id": checked["campaign_id"], "trial_id": checked["trial_id"], "recorded": done}
