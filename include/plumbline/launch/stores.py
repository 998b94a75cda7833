"""The two result stores of a trial: home, where everything is kept, and the one that its provider's pods write to.

For a provider on this machine both are the same. A cluster's pods write to a bucket near them, with credentials of their own; `collect`
brings what they wrote home, so that whoever reads results afterwards needs one store and one set of credentials.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from plumbline.declarations import KubernetesLauncher, Provider, Trial, places
from plumbline.launch import evidence_limits, store_connections
from plumbline.results import BadResult, Evidence, ResultDocument, ResultStore, expired, log_block, quarantine, reading

PLANNED = "planned.json"


def home() -> ResultStore:
    """The installation's own store."""
    return ResultStore(places().results_url)


def of(provider: Provider) -> ResultStore:
    """The store that the provider's trials write to, opened from here.

    Credentials come from the Airflow connection `results_connection`, or from the environment if none is declared.
    Raises ValueError naming the connection if it does not suit the store's URL.
    """
    launcher = provider.launcher
    if not isinstance(launcher, KubernetesLauncher):
        return home()
    if launcher.results_connection is None:
        return ResultStore(launcher.results_url)
    return ResultStore(launcher.results_url, store_connections.options(launcher.results_url, launcher.results_connection))


def planned(store: ResultStore, spec: Mapping[str, str]) -> Trial:
    """The stored specification of a planned trial. FileNotFoundError if it was never planned."""
    return Trial.model_validate_json(store.get(planned_path(spec["campaign_id"], spec["trial_id"])))


def planned_path(campaign_id: str, trial_id: str) -> str:
    """Where the specification stands: beside the attempts, not in one. An attempt's folder is the launcher's, and holds what it was given."""
    return f"{campaign_id}/{trial_id}/{PLANNED}"


def next_attempt(trial: Trial, store: ResultStore) -> Trial:
    """The trial as an attempt that the store does not hold yet: nothing that was measured is ever overwritten."""
    held = [int(folder.rpartition("-")[2]) for folder in store.attempts(trial.campaign_id, trial.trial_id)]
    return trial.model_copy(update={"attempt": max([trial.attempt - 1, *held]) + 1})


def bring_home(trial: Trial, away: ResultStore, kept: ResultStore) -> str | None:
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
    except BadResult as error:
        quarantine.put(kept, folder, "result.json", str(error), away)
        return str(error)
    except OSError:
        if kept.exists(path):  # the pod's log brought it home, or an earlier call
            return None
        raise
    known = kept.exists(path) and kept.head(path, len(raw) + 1) == raw
    gone = expired.note(kept, folder) if known else None
    for item in _evidence(raw, away.uri(path)):
        if known and ((gone and item.uri in gone.files) or kept.exists(f"{folder}/{item.uri}")):
            continue
        with suppress(FileNotFoundError):  # `collect` names what is missing at home
            copy_evidence(item, away, folder, kept, folder)
    if not known:
        kept.put(path, raw)
    return None


def from_log(trial: Trial, log: bytes, kept: ResultStore) -> bool:
    """Store the attempt's result that its harness printed because its own store was away; False if the log holds none.

    Of the files only those that the document lists as evidence are taken. BadBlock if the log holds a result that cannot be used.
    """
    files = log_block.read(log)
    if files is None:
        return False
    try:
        document = reading.model(ResultDocument, files["result.json"], "the result in the log")
    except BadResult as error:
        raise log_block.BadBlock(str(error)) from error
    if document.trial != trial:  # a pod prints what it likes
        raise log_block.BadBlock(f"the result in the log is of trial {document.trial.trial_id}, attempt {document.trial.attempt}")
    if problems := evidence_limits.exceeded(document):
        raise log_block.BadBlock(problems[0])
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


def _evidence(raw: bytes, where: str) -> Sequence[Evidence]:
    try:
        document = reading.model(ResultDocument, raw, where)
    except BadResult:
        return ()  # its list of files cannot be believed either
    return () if evidence_limits.exceeded(document) else document.evidence
