"""Where results come from and go to: the home store, a provider's own store, transfer between them, limits on evidence, signing keys."""

from __future__ import annotations

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


def home() -> ResultStore:
    """The installation's own store."""
    return ResultStore(installation_paths().results_url)


def store_of(provider: Provider) -> ResultStore:
    """The store that the provider's trials write to, opened from here.

    Credentials come from the Airflow connection `results_connection`, or from the environment if none is declared.
    Raises ValueError naming the connection if it does not suit the store's URL.
    """
    remote = provider.launcher.remote_store
    if remote is None:
        return home()
    if remote.connection is None:
        return ResultStore(remote.url)
    return ResultStore(remote.url, connections.store_options(remote.url, remote.connection))


def planned_trial(store: ResultStore, spec: Mapping[str, str]) -> Trial:
    """The stored specification of a planned trial. FileNotFoundError if it was never planned."""
    return Trial.model_validate_json(store.get(planned_path(spec["campaign_id"], spec["trial_id"])))


def planned_path(campaign_id: str, trial_id: str) -> str:
    """Where the specification stands: beside the attempts, not in one. An attempt's folder is the launcher's, and holds what it was given."""
    return f"{campaign_id}/{trial_id}/{PLANNED_FILE}"


def next_attempt(trial: Trial, store: ResultStore) -> Trial:
    """The trial as an attempt that the store does not hold yet: nothing that was measured is ever overwritten."""
    held = [int(folder.rpartition("-")[2]) for folder in store.attempts(trial.campaign_id, trial.trial_id)]
    return trial.model_copy(update={"attempt": max([trial.attempt - 1, *held]) + 1})


def fetch_attempt(trial: Trial, away: ResultStore, kept: ResultStore) -> str | None:
    """Copy an attempt's evidence and its document from the provider's store, the document last; nothing if there is none.

    Only `result.json` and the files below `evidence/` that it lists are taken, within the declared bounds: what else a pod wrote, or lists,
    stays where it is. What cannot be believed is copied too, and `collect` judges it at home. Returns why the document itself was not copied,
    or None. Copying again changes nothing. OSError if the store does not answer and the document is not at home already.
    """
    folder = kept.folder(trial)
    path = f"{folder}/result.json"
    try:
        raw = away.get(path)
    except FileNotFoundError:
        return None
    except InvalidResult as error:
        quarantine.put(kept, folder, "result.json", str(error), away)
        return str(error)
    except OSError:
        if kept.exists(path):  # the pod's log brought it home, or an earlier call
            return None
        raise
    known = kept.exists(path) and kept.head(path, len(raw) + 1) == raw
    gone = evidence_files.read_expired(kept, folder) if known else None
    for item in _listed_evidence(raw, away.uri(path)):
        if known and ((gone and item.uri in gone.files) or kept.exists(f"{folder}/{item.uri}")):
            continue
        with suppress(FileNotFoundError):  # `collect` names what is missing at home
            copy_evidence(item, away, folder, kept, folder)
    if not known:
        kept.put(path, raw)
    return None


def store_from_log(trial: Trial, log: bytes, kept: ResultStore) -> bool:
    """Store the attempt's result that its harness printed because its own store was away; False if the log holds none.

    Of the files only those that the document lists as evidence are taken. BadBlock if the log holds a result that cannot be used.
    """
    files = log_transport.decode(log)
    if files is None:
        return False
    try:
        document = bounded_json.parse_model(ResultDocument, files["result.json"], "the result in the log")
    except InvalidResult as error:
        raise log_transport.InvalidBlock(str(error)) from error
    if document.trial != trial:  # a pod prints what it likes
        raise log_transport.InvalidBlock(f"the result in the log is of trial {document.trial.trial_id}, attempt {document.trial.attempt}")
    if problems := evidence_violations(document):
        raise log_transport.InvalidBlock(problems[0])
    for item in document.evidence:
        if item.uri in files:
            kept.put(f"{kept.folder(trial)}/{item.uri}", files[item.uri])
    kept.put(f"{kept.folder(trial)}/result.json", files["result.json"])
    return True


def copy_evidence(item: Evidence, source: ResultStore, source_folder: str, target: ResultStore, folder: str) -> None:
    """Copy a file of an attempt, but little more of it than is declared: who reads the copy finds out that it is too large or another one.

    FileNotFoundError if the source has none.
    """
    with tempfile.NamedTemporaryFile(prefix="plumbline-evidence-") as file:
        source.digest(f"{source_folder}/{item.uri}" if source_folder else item.uri, item.bytes, file)
        file.flush()
        target.put_file(f"{folder}/{item.uri}", Path(file.name))


def _listed_evidence(raw: bytes, where: str) -> Sequence[Evidence]:
    try:
        document = bounded_json.parse_model(ResultDocument, raw, where)
    except InvalidResult:
        return ()  # its list of files cannot be believed either
    return () if evidence_violations(document) else document.evidence


EVIDENCE_FOLDER = "evidence/"
"""The only part of an attempt's folder that a harness fills; specification, launch record and document beside it are the launcher's."""


def evidence_violations(document: ResultDocument) -> list[str]:
    """What of the document's list of files is not allowed, one sentence each. Declared in upkeep.yaml, `evidence`."""
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
    """A new key for an attempt that is not announced yet; its public half is in the archive before it is returned. OSError if that is away."""
    key = KeyPair.generate()
    with _open_archive() as archive:
        archive.issue_signing_key(trial.campaign_id, trial.trial_id, trial.attempt, key.public_hex)
    return key


def issued_signing_keys(campaign_id: str, trial_id: str) -> dict[int, str]:
    """The public keys of a trial's attempts, by attempt. OSError if the archive is away."""
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
