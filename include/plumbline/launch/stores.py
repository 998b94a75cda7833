"""The two result stores of a trial: home, where everything is kept, and the one that its provider's pods write to.

For a provider on this machine both are the same. A cluster's pods write to a bucket near them, with credentials of their own; `collect`
brings what they wrote home, so that whoever reads results afterwards needs one store and one set of credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from plumbline.declarations import KubernetesLauncher, Provider, Trial, places
from plumbline.launch import store_connections
from plumbline.results import BadResult, ResultDocument, ResultStore, log_block

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


def bring_home(trial: Trial, away: ResultStore, kept: ResultStore) -> None:
    """Copy an attempt's evidence and its document from the provider's store, the document last; nothing if there is none.

    OSError if the store does not answer and the document is not at home already.

    What cannot be believed is copied too: `collect` judges it at home. Copying again changes nothing.
    """
    folder = kept.folder(trial)
    try:
        raw = away.get(f"{folder}/result.json")
    except FileNotFoundError:
        return
    except OSError:
        if kept.exists(f"{folder}/result.json"):  # the pod's log brought it home, or an earlier call
            return
        raise
    if kept.exists(f"{folder}/result.json") and kept.get(f"{folder}/result.json") == raw:
        return
    for item in _evidence(away, folder):
        path = f"{folder}/{item}"
        if away.exists(path):
            kept.put(path, away.get(path))
    kept.put(f"{folder}/result.json", raw)


def from_log(trial: Trial, log: bytes, kept: ResultStore) -> bool:
    """Store the attempt's result that its harness printed because its own store was away; False if the log holds none.

    Of the files only those that the document lists as evidence are taken. BadBlock if the log holds a result that cannot be used.
    """
    files = log_block.read(log)
    if files is None:
        return False
    try:
        document = ResultDocument.model_validate_json(files["result.json"])
    except ValidationError as error:
        raise log_block.BadBlock(f"the result in the log is none: {error.errors(include_url=False)[0]['msg']}") from error
    if document.trial != trial:  # a pod prints what it likes
        raise log_block.BadBlock(f"the result in the log is of trial {document.trial.trial_id}, attempt {document.trial.attempt}")
    for item in document.evidence:
        if item.uri.startswith("evidence/") and item.uri in files:
            kept.put(f"{kept.folder(trial)}/{item.uri}", files[item.uri])
    kept.put(f"{kept.folder(trial)}/result.json", files["result.json"])
    return True


def _evidence(store: ResultStore, folder: str) -> list[str]:
    try:
        document: ResultDocument = store.document(folder)
    except BadResult:
        return []  # its list of files cannot be believed either
    return [item.uri for item in document.evidence]
