"""One document for each attempt of a trial, also of a failed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.cluster import store_credentials
from plumbline.launch.failures import UNSCALED
from plumbline.launch.remote import UNFINISHED
from plumbline.results import (
    FailureClass,
    InvalidResult,
    LaunchRecord,
    Reason,
    ResultDocument,
    ResultStore,
    Validity,
    log_transport,
    quarantine,
    signing,
)
from plumbline.results.evidence_files import damaged_files
from plumbline.results.store import REPLICAS_FILE

Keys = Callable[[str, str], Mapping[int, str]]
"""Issued public keys by attempt, from campaign id and trial id."""
_UNINFORMATIVE = (None, "interrupted", "unreachable")
"""Launcher's classes that explain no more than the harness's own."""


def collect(store: ResultStore, campaign_id: str, trial_id: str, keys: Keys = stores.issued_signing_keys) -> list[ResultDocument]:
    """The documents of a trial's attempts, oldest first, each with its launch record, each stored as collected.json. Idempotent.

    A document with an invalid size, schema, checksum, evidence or trial, and a missing one, become a document with validity failed and the
    reason. Documents in the pods' own store are copied first; they count only with a signature by the attempt's issued key, unless the
    trial's version issued none. An attempt with an unusable trial.json fails under its plan; a folder that was never announced is skipped.
    InvalidResult if the store has no attempt of the trial; OSError if the pods' store or the archive does not answer.
    """
    folders = store.announced(campaign_id, trial_id)
    if not folders:
        raise InvalidResult(f"{store.uri(f'{campaign_id}/{trial_id}')} has no attempt; expected attempt-1/trial.json")
    documents = []
    for folder in folders:
        document = _collect_attempt(store, folder, keys)
        store.put_collected(document)
        documents.append(document)
    return documents


def _collect_attempt(store: ResultStore, folder: str, keys: Keys) -> ResultDocument:
    try:
        trial = store.trial(folder)
    except (FileNotFoundError, InvalidResult) as error:
        return _missing_specification(store, folder, error)
    record, unread = _read_launch(store, folder)
    if trial.provider.launcher.remote_store is not None and _may_have_written(record):
        try:
            not_copied = stores.fetch_attempt(trial, stores.store_of(trial.provider), store)
        except PermissionError as error:
            raise PermissionError(store_credentials.explain_refusal(str(error), trial.provider, here=True)) from error
        unread = not_copied if not_copied is not None else unread
    if not store.exists(f"{folder}/result.json"):
        _take_result_from_log(store, folder, trial)
    try:
        document = store.document(folder)
    except FileNotFoundError:
        document = _failed_document(trial, *(_missing_document_reason(record) if unread is None else ("harness_error", unread)))
    except InvalidResult as error:
        quarantine.put(store, folder, "result.json", str(error))
        document = _failed_document(trial, "harness_error", str(error))
    else:
        if (corrected := _earlier_correction(store, folder, document)) is not None:
            return corrected
        wrong = stores.evidence_violations(document) or damaged_files(store, document)
        if document.trial != trial:
            of = f"{document.trial.trial_id}, attempt {document.trial.attempt}"
            wrong.append(f"the document is of trial {of}, not of the one in trial.json")
        try:
            remote = trial.provider.launcher.outlasts_task
            document = signing.verify_delivered(document, keys(trial.campaign_id, trial.trial_id) if remote else None)
        except ValueError as error:
            wrong.append(str(error))
        if wrong:
            quarantine.put(store, folder, "result.json", "; ".join(wrong))
            document = _failed_document(trial, "harness_error", "; ".join(wrong))
    if record is None:
        return document
    # A stopped harness does not know the cause: a limit of memory, time or disk, or a gang without room.
    # It does not know either that nothing could have multiplied its servers.
    unscaled = (record.failure_detail or "").startswith(UNSCALED)
    better = None if record.failure_class in _UNINFORMATIVE else record.failure_class
    if better is not None and (unscaled or document.validity.failure_class == "interrupted"):
        document = _reclassified(document, better, record.failure_detail or better)
    return document.with_launch(_with_replicas(store, folder, record, trial))


def contradiction(store: ResultStore, folder: str, document: ResultDocument, keys: Mapping[int, str]) -> str | None:
    """Why `collect` cannot have made this collected document of the files beside it, in words; None if it can. Others may write to a bucket.

    `keys`: the public keys that the launcher issued for the trial, by attempt."""
    if document.signature is not None and document.signature.attempt is not None:
        return "it names another attempt as the signed one, as only a correction does, and the archive holds no such correction"
    record, _ = _read_launch(store, folder)
    if document.launch is not None and (record is None or record.failure_class != document.launch.failure_class):
        return "its launch did not end as launch.json says"
    if document.validity.status == "missing" and any(
        store.exists(f"{folder}/{file}") for file in ("trial.json", "launch.json", "result.json")
    ):
        return "it says that the trial never ran, but the attempt was launched"
    if document.signature is not None or not keys:
        return None
    try:
        written = store.document(folder)
    except (FileNotFoundError, InvalidResult):
        return None
    if written.checksum == document.checksum:
        return signing.NOT_SIGNED
    if signing.verify(written, keys).status == "verified" and document.validity.failure_class != "harness_error":
        return "it replaces the signed result.json that lies beside it"
    return None


def _earlier_correction(store: ResultStore, folder: str, document: ResultDocument) -> ResultDocument | None:
    """The correction that a version before correction.json stored as an attempt of its own; `record` believes it only if the archive has it."""
    if document.launch is None and (document.signature is None or document.signature.attempt is None):
        return None
    try:
        collected = store.collected(folder)
    except (FileNotFoundError, InvalidResult):
        return None
    return collected if collected.checksum == document.checksum else None


def _take_result_from_log(store: ResultStore, folder: str, trial: Trial) -> None:
    """Store the result that the harness printed into its log because its store was unavailable."""
    try:
        stores.store_from_log(trial, store.get(f"{folder}/launch.log", log_transport.MAX_LOG_BYTES), store)
    except (FileNotFoundError, InvalidResult):  # no log, or one too large to be a pod's
        return
    except log_transport.InvalidBlock as error:
        quarantine.put(store, folder, "launch.log", str(error))


def _missing_specification(store: ResultStore, folder: str, error: Exception) -> ResultDocument:
    """The document of an attempt without a specification. No result beside it counts: nothing can validate it."""
    campaign_id, trial_id, attempt = folder.split("/")
    try:
        planned = stores.planned_trial(store, {"campaign_id": campaign_id, "trial_id": trial_id})
    except FileNotFoundError:
        raise InvalidResult(f"{store.uri(folder)}/trial.json and the trial's {stores.PLANNED_FILE} are missing or unusable") from error
    missing = isinstance(error, FileNotFoundError)
    detail = f"{store.uri(folder)}/trial.json is missing; expected the attempt's specification" if missing else str(error)
    for file in ("trial.json", "result.json"):
        if store.exists(f"{folder}/{file}"):
            quarantine.put(store, folder, file, detail)
    return _failed_document(planned.model_copy(update={"attempt": int(attempt.rpartition("-")[2])}), "harness_error", detail)


def _may_have_written(record: LaunchRecord | None) -> bool:
    # A launch that never ran a container left nothing in its store, which then need not answer. The record of an unfinished launch, or of
    # one that was unreachable until its deletion, does not show that.
    if record is None or record.failure_detail == UNFINISHED:
        return True
    if record.failure_class == "unreachable" and any(event.name == "deleted" for event in record.events):
        return True
    return any(event.name == "started" for pod in record.pods for event in pod.events)


def _reclassified(document: ResultDocument, failure_class: FailureClass, detail: str) -> ResultDocument:
    """The same document under the launcher's class. The document as the harness signed it stays in result.json."""
    reasons = (Reason(code=failure_class, detail=detail), *document.validity.reasons)
    fields = {name: getattr(document, name) for name in type(document).model_fields if name not in ("validity", "checksum", "launch")}
    if document.signature is not None:
        fields["signature"] = document.signature.model_copy(update={"validity": document.signature.validity or document.validity})
    return ResultDocument.sealed(**fields, validity=Validity(status="failed", reasons=reasons, failure_class=failure_class))


def _read_launch(store: ResultStore, folder: str) -> tuple[LaunchRecord | None, str | None]:
    try:
        return store.launch(folder), None
    except InvalidResult as error:
        return None, str(error)


def _with_replicas(store: ResultStore, folder: str, record: LaunchRecord, trial: Trial) -> LaunchRecord:
    if trial.workload.scale_out is None and not trial.hosted:
        return record
    try:
        return record.model_copy(update={"replicas": store.replicas(folder)})
    except InvalidResult as error:
        quarantine.put(store, folder, REPLICAS_FILE, str(error))
        return record


def _missing_document_reason(record: LaunchRecord | None) -> tuple[FailureClass, str]:
    if record is None:
        return "interrupted", "no result and no launch record: the launcher was ended while the trial ran"
    if record.failure_class is None:
        return "harness_error", "the result document that the launcher saw is no longer in the store"
    return record.failure_class, record.failure_detail or "no detail recorded"


def _failed_document(trial: Trial, failure_class: FailureClass, detail: str) -> ResultDocument:
    reason = Reason(code=failure_class, detail=detail)
    return ResultDocument.sealed(
        trial=trial,
        harness_version=signing.UNKNOWN_HARNESS,
        simulated=trial.provider.simulated,
        validity=Validity(status="failed", reasons=(reason,), failure_class=failure_class),
    )
