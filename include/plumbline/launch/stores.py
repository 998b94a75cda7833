"""Result stores: home, a provider's own, transfer between them, limits on evidence, signing keys."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.declarations import Provider, Trial, installation_paths, load_upkeep
from plumbline.launch import connections
from plumbline.results import Evidence, InvalidResult, ResultDocument, ResultStore, bounded_json, evidence_files, log_transport, quarantine
from plumbline.results.bounded_json import format_size
from plumbline.results.signing import KeyPair

if TYPE_CHECKING:
    from plumbline.archive import Archive


PLANNED_FILE = "planned.json"
_REQUEST_FILE = "request.json"


def home() -> ResultStore:
    """The installation's own store."""
    return ResultStore(installation_paths().results_url)


def store_of(provider: Provider) -> ResultStore:
    """The store that the provider's trials write to, opened with the credentials of the Airflow connection `results_connection`, else of the
    environment. ValueError naming the connection if it does not fit the store's URL."""
    remote = provider.launcher.remote_store
    if remote is None:
        return home()
    if remote.connection is None:
        return ResultStore(remote.url)
    return ResultStore(remote.url, connections.store_options(remote.url, remote.connection))


def planned_trial(store: ResultStore, spec: Mapping[str, str]) -> Trial:
    """The planned trial; FileNotFoundError if it was never planned, InvalidResult if it is unusable."""
    path = planned_path(spec["campaign_id"], spec["trial_id"])
    return bounded_json.parse_model(Trial, store.get(path), store.uri(path))


def planned_path(campaign_id: str, trial_id: str) -> str:
    """Path of the specification, beside the attempts' folders, which the launcher writes."""
    return f"{campaign_id}/{trial_id}/{PLANNED_FILE}"


def next_attempt(trial: Trial, store: ResultStore) -> Trial:
    """The trial as its next attempt: no attempt in the store is ever overwritten."""
    numbers = [int(folder.rpartition("-")[2]) for folder in store.attempts(trial.campaign_id, trial.trial_id)]
    return trial.model_copy(update={"attempt": max([trial.attempt - 1, *numbers]) + 1})


def newest_attempt(spec: Mapping[str, str]) -> tuple[ResultStore, str] | None:
    """The home store and the folder of a trial's attempt that was announced last; None without one."""
    store = home()
    folders = store.announced(spec["campaign_id"], spec["trial_id"])
    return (store, folders[-1]) if folders else None


def attempts_for(request: str, store: ResultStore, spec: Mapping[str, str]) -> list[str]:
    """Folders of the attempts that this request launched, oldest first; a new request is noted beside them. `request`: its name, of any form."""
    path = f"{spec['campaign_id']}/{spec['trial_id']}/{_REQUEST_FILE}"
    folders = store.attempts(spec["campaign_id"], spec["trial_id"])
    try:
        noted = bounded_json.parse_object(store.get(path), store.uri(path))
    except (FileNotFoundError, InvalidResult):
        noted = {}
    if noted.get("request") != request or not isinstance(noted.get("after"), list):
        store.put(path, json.dumps({"request": request, "after": folders}).encode())
        return []
    return [folder for folder in folders if folder not in noted["after"]]


def fetch_attempt(trial: Trial, away: ResultStore, home: ResultStore) -> str | None:
    """Copy an attempt's evidence and then its document, if there is one, from the provider's store; why the document was not copied, or None.

    Copies only `result.json` and the files below `evidence/` that it lists, within the declared bounds; `collect` validates them at home.
    Idempotent. OSError if the store does not answer and home has no document.
    """
    folder = home.folder(trial)
    path = f"{folder}/result.json"
    try:
        raw = away.get(path)
    except FileNotFoundError:
        return None
    except InvalidResult as error:
        quarantine.put(home, folder, "result.json", str(error), away)
        return str(error)
    except OSError:
        if home.exists(path):  # from the pod's log, or an earlier call
            return None
        raise
    known = home.exists(path) and home.head(path, len(raw) + 1) == raw
    gone = evidence_files.read_expired(home, folder) if known else None
    for item in _listed_evidence(raw, away.uri(path)):
        if known and ((gone and item.uri in gone.files) or home.exists(f"{folder}/{item.uri}")):
            continue
        with suppress(FileNotFoundError):  # `collect` names what is missing at home
            copy_evidence(item, away, folder, home, folder)
    if not known:
        home.put(path, raw)
    return None


def store_from_log(trial: Trial, log: bytes, home: ResultStore) -> bool:
    """Store the result that the harness printed because its own store was unavailable; False if the log has none.

    Takes only files that the document lists as evidence. InvalidBlock if the printed result is invalid.
    """
    files = log_transport.decode(log)
    if files is None:
        return False
    try:
        document = bounded_json.parse_model(ResultDocument, files["result.json"], "the result in the log")
    except InvalidResult as error:
        raise log_transport.InvalidBlock(str(error)) from error
    if document.trial != trial:  # a pod may print anything
        raise log_transport.InvalidBlock(f"the result in the log is of trial {document.trial.trial_id}, attempt {document.trial.attempt}")
    if problems := evidence_violations(document):
        raise log_transport.InvalidBlock(problems[0])
    for item in document.evidence:
        if item.uri in files:
            home.put(f"{home.folder(trial)}/{item.uri}", files[item.uri])
    home.put(f"{home.folder(trial)}/result.json", files["result.json"])
    return True


def copy_evidence(item: Evidence, source: ResultStore, source_folder: str, target: ResultStore, folder: str) -> None:
    """Copy a file of an attempt, at most little more than its declared size; readers of the copy verify it. FileNotFoundError without a source."""
    with tempfile.NamedTemporaryFile(prefix="plumbline-evidence-") as file:
        source.digest(f"{source_folder}/{item.uri}" if source_folder else item.uri, item.bytes, file)
        file.flush()
        target.put_file(f"{folder}/{item.uri}", Path(file.name))


def _listed_evidence(raw: bytes, where: str) -> Sequence[Evidence]:
    try:
        document = bounded_json.parse_model(ResultDocument, raw, where)
    except InvalidResult:
        return ()  # its list of files is untrusted too
    return () if evidence_violations(document) else document.evidence


EVIDENCE_FOLDER = "evidence/"
"""The harness writes nothing else into an attempt's folder but its document."""


def evidence_violations(document: ResultDocument) -> list[str]:
    """Violations of upkeep.yaml's `evidence` limits, one message each."""
    rules, listed = load_upkeep().evidence, document.evidence
    problems = [
        f"the document lists {item.uri} as evidence; expected only files below {EVIDENCE_FOLDER}"
        for item in listed
        if not item.uri.startswith(EVIDENCE_FOLDER)
    ][:1]
    if len(listed) > rules.most_files:
        problems.append(
            f"the document lists {len(listed):,} files of evidence; expected at most {rules.most_files:,} (evidence.most_files)"
        )
    if (total := sum(item.bytes for item in listed)) > rules.most_bytes:
        problems.append(
            f"the document lists {format_size(total)} of evidence; expected at most {format_size(int(rules.most_bytes))} (evidence.most_bytes)"
        )
    return problems


def issue_signing_key(trial: Trial) -> KeyPair:
    """A new key for an attempt that is not announced yet, its public half stored in the archive. OSError if that is unavailable."""
    key = KeyPair.generate()
    with _open_archive() as archive:
        archive.issue_signing_key(trial.campaign_id, trial.trial_id, trial.attempt, key.public_hex)
    return key


def issued_signing_keys(campaign_id: str, trial_id: str) -> dict[int, str]:
    """Public keys by attempt. OSError if the archive is unavailable."""
    with _open_archive() as archive:
        return archive.signing_keys(campaign_id, trial_id)


@contextmanager
def _open_archive() -> Iterator[Archive]:
    from sqlalchemy.exc import DBAPIError

    from plumbline.archive import open_archive

    try:
        with open_archive() as archive:
            yield archive
    except DBAPIError as error:
        raise OSError(f"the archive, which holds the trials' public keys, does not answer: {error.orig}") from error
