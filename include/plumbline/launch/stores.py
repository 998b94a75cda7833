"""The two result stores of a trial: home, where everything is kept, and the one that its provider's pods write to.

For a provider on this machine both are the same. A cluster's pods write to a bucket near them, with credentials of their own; `collect`
brings what they wrote home, so that whoever reads results afterwards needs one store and one set of credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

from plumbline.declarations import KubernetesLauncher, Provider, Trial, places
from plumbline.launch import store_connections
from plumbline.results import BadResult, ResultDocument, ResultStore

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

    What cannot be believed is copied too: `collect` judges it at home. Copying again changes nothing.
    """
    folder = kept.folder(trial)
    try:
        raw = away.get(f"{folder}/result.json")
    except FileNotFoundError:
        return
    if kept.exists(f"{folder}/result.json") and kept.get(f"{folder}/result.json") == raw:
        return
    for item in _evidence(away, folder):
        path = f"{folder}/{item}"
        if away.exists(path):
            kept.put(path, away.get(path))
    kept.put(f"{folder}/result.json", raw)


def _evidence(store: ResultStore, folder: str) -> list[str]:
    try:
        document: ResultDocument = store.document(folder)
    except BadResult:
        return []  # its list of files cannot be believed either
    return [item.uri for item in document.evidence]
