"""One document for each attempt of a trial, whatever became of it: nothing that was launched is missing from the archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.cluster import store_credentials
from plumbline.launch.cluster.operate.attempts import UNFINISHED
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

Keys = Callable[[str, str], Mapping[int, str]]
"""Public keys that the launcher issued for a trial (campaign id, trial id), by attempt."""
_UNINFORMATIVE = (None, "interrupted", "unreachable")
"""What a launcher says that knows no more than a harness that was stopped: an outage of the API hides what happened, but not that it ran."""


def collect(store: ResultStore, campaign_id: str, trial_id: str, keys: Keys = stores.issued_signing_keys) -> list[ResultDocument]:
    """The documents of a trial's attempts, oldest first, each with what the launcher saw, each stored as collected.json.

    A document counts only if its size, its schema, its checksum, its evidence and its trial hold; else, or if there is none, the attempt becomes
    a document with validity failed and the reason. What a cluster's pods wrote to their own store is brought into this one first.
    Collecting again gives the same documents.
    An attempt whose trial.json is missing or unusable is recorded as failed under its plan; a folder that was never announced is skipped.
    What a cluster's pods wrote counts only if it is signed with the key that the launcher issued for the attempt; trials of a version that
    issued none are the exception.
    Raises BadResult if the store has no attempt of the trial; OSError if the pods' store, or the archive that holds the keys, does not answer.
    """
    folders = store.announced(campaign_id, trial_id)
    if not folders:
        raise InvalidResult(f"{store.uri(f'{campaign_id}/{trial_id}')}: no attempt of this trial; expected attempt-1/trial.json at least")
    documents = []
    for folder in folders:
        document = _collect_attempt(store, folder, keys)
        store.put_collected(document)
        documents.append(document)
    return documents


def _collect_attempt(store: ResultStore, folder: str, keys: Keys) -> ResultDocument:
    try:
        asked = store.trial(folder)
    except (FileNotFoundError, InvalidResult) as error:
        return _missing_specification(store, folder, error)
    record, unread = _read_launch(store, folder)
    if asked.provider.launcher.remote_store is not None and _may_have_written(record):
        try:
            left_away = stores.fetch_attempt(asked, stores.store_of(asked.provider), store)
        except PermissionError as error:
            raise PermissionError(store_credentials.explain_refusal(str(error), asked.provider, here=True)) from error
        unread = left_away if left_away is not None else unread
    if not store.exists(f"{folder}/result.json"):
        _take_result_from_log(store, folder, asked)
    try:
        document = store.document(folder)
    except FileNotFoundError:
        document = _failed_document(asked, *(_missing_document_reason(record) if unread is None else ("harness_error", unread)))
    except InvalidResult as error:
        quarantine.put(store, folder, "result.json", str(error))
        document = _failed_document(asked, "harness_error", str(error))
    else:
        wrong = stores.evidence_violations(document) or damaged_files(store, document)
        wrong += _wrong_trial(asked, document)
        if asked.provider.launcher.remote_store is not None:
            try:
                document = signing.verify_collected(document, keys(asked.campaign_id, asked.trial_id))
            except ValueError as error:
                wrong.append(str(error))
        if wrong:
            quarantine.put(store, folder, "result.json", "; ".join(wrong))
            document = _failed_document(asked, "harness_error", "; ".join(wrong))
    if record is None:
        return document
    # Asked to stop, a harness does not know why: that its memory, its time or its disk was over, or that its gang found no room.
    if record.failure_class not in _UNINFORMATIVE and document.validity.failure_class == "interrupted":
        document = _reclassified(document, record.failure_class, record.failure_detail or record.failure_class)
    return document.with_launch(record)


def _take_result_from_log(store: ResultStore, folder: str, asked: Trial) -> None:
    """Take the result that the harness printed because its store was away, from the log that the launcher stored."""
    try:
        stores.store_from_log(asked, store.get(f"{folder}/launch.log", log_transport.MAX_LOG_BYTES), store)
    except (FileNotFoundError, InvalidResult):  # there is no log, or one that is too large to be a pod's
        return
    except log_transport.InvalidBlock as error:
        quarantine.put(store, folder, "launch.log", str(error))


def _missing_specification(store: ResultStore, folder: str, error: Exception) -> ResultDocument:
    """The document of an attempt whose specification is lost. A result beside it cannot be checked against what was asked, so none counts."""
    campaign_id, trial_id, attempt = folder.split("/")
    try:
        planned = stores.planned_trial(store, {"campaign_id": campaign_id, "trial_id": trial_id})
    except FileNotFoundError:
        raise InvalidResult(
            f"{store.uri(folder)}/trial.json is missing or unusable, and so is the trial's {stores.PLANNED_FILE}"
        ) from error
    missing = isinstance(error, FileNotFoundError)
    detail = f"{store.uri(folder)}/trial.json is missing; expected the attempt's specification" if missing else str(error)
    for file in ("trial.json", "result.json"):
        if store.exists(f"{folder}/{file}"):
            quarantine.put(store, folder, file, detail)
    return _failed_document(planned.model_copy(update={"attempt": int(attempt.rpartition("-")[2])}), "harness_error", detail)


def _may_have_written(record: LaunchRecord | None) -> bool:
    # A launch that never got a container to run left nothing in its store, which then need not even answer. Nobody knows that of one
    # that nobody came back to, or that was given up unseen: its last event is its deletion.
    if record is None or record.failure_detail == UNFINISHED:
        return True
    if record.failure_class == "unreachable" and any(event.name == "deleted" for event in record.events):
        return True
    return any(event.name == "started" for pod in record.pods for event in pod.events)


def _reclassified(document: ResultDocument, failure_class: FailureClass, detail: str) -> ResultDocument:
    """The same document under the class that the launcher knows: the harness only saw that it was asked to stop.

    What it measured stays; the document as the harness signed it stays in result.json.
    """
    reasons = (Reason(code=failure_class, detail=detail), *document.validity.reasons)
    kept = {name: getattr(document, name) for name in type(document).model_fields if name not in ("validity", "checksum", "launch")}
    if document.signature is not None:
        kept["signature"] = document.signature.model_copy(update={"validity": document.signature.validity or document.validity})
    return ResultDocument.sealed(**kept, validity=Validity(status="failed", reasons=reasons, failure_class=failure_class))


def _read_launch(store: ResultStore, folder: str) -> tuple[LaunchRecord | None, str | None]:
    """What the launcher saw, or why that cannot be read."""
    try:
        return store.launch(folder), None
    except InvalidResult as error:
        return None, str(error)


def _missing_document_reason(record: LaunchRecord | None) -> tuple[FailureClass, str]:
    """Why there is no document."""
    if record is None:
        return "interrupted", "neither a result nor a launch record: the launcher itself was ended while the trial ran"
    if record.failure_class is None:
        return "harness_error", "the launcher saw a result document, but it is no longer in the store"
    return record.failure_class, record.failure_detail or "the launcher gave no detail"


def _wrong_trial(asked: Trial, document: ResultDocument) -> list[str]:
    if document.trial == asked:
        return []
    return [f"the document is of trial {document.trial.trial_id}, attempt {document.trial.attempt}, not of what trial.json asks for"]


def _failed_document(trial: Trial, failure_class: FailureClass, detail: str) -> ResultDocument:
    reason = Reason(code=failure_class, detail=detail)
    return ResultDocument.sealed(
        trial=trial,
        harness_version=signing.UNKNOWN_HARNESS,
        simulated=trial.provider.simulated,
        validity=Validity(status="failed", reasons=(reason,), failure_class=failure_class),
    )
