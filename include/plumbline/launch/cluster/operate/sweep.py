"""Objects of ours on a cluster: count them, delete those past their deadline."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timezone

from plumbline.declarations import KubernetesLauncher
from plumbline.launch import stores
from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import API_PATIENCE_S, ClusterApi
from plumbline.launch.cluster.names import EXPIRES, LAUNCH, MANAGED_BY, MANAGER, launch_name
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.failures import ApiRefused
from plumbline.launch.leftovers import Leftovers
from plumbline.results import InvalidResult

_log = logging.getLogger(__name__)
# Owners first: what they own goes with them.
_KINDS = ("JobSet", "Job", "Service", "Pod", "Secret")


def sweep_expired(
    launcher: KubernetesLauncher, now_s: float | None = None, patience_s: float = API_PATIENCE_S, launches: Collection[str] | None = None
) -> list[str]:
    """Delete every object with our label in the provider's namespace whose expiry annotation has passed; the deleted ones, such as "Pod pl-x-0".

    `launches`: names of launches whose objects are deleted instead, whatever their expiry. Covers all kinds that a launch may create, also
    those of a `gang` declared earlier. Skips objects that are being deleted.

    Unreachable and BadDeclaration as of a launch; ApiRefused, after everything else was swept, if the API refuses a kind or a deletion.
    """
    api = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s)
    now = time.time() if now_s is None else now_s
    deleted: list[str] = []
    refused: list[tuple[str, ApiRefused]] = []
    for kind in _KINDS:
        try:
            items = api.listed(kind, f"{MANAGED_BY}={MANAGER}")
        except ApiRefused as refusal:
            if kind == "JobSet" and launcher.gang != "jobset" and refusal.status in (403, 404):
                _log.debug("cannot list %s in %s: %s", kind, launcher.namespace, refusal)
            else:
                refused.append((f"list {kind}", refusal))
            continue
        for item in items:
            if not (_has_expired(kind, item, now, launcher.namespace) if launches is None else _is_of(item, launches)):
                continue
            name = item["metadata"]["name"]
            try:
                if api.delete_exactly(kind, name, item["metadata"]["uid"]):
                    deleted.append(f"{kind} {name}")
            except ApiRefused as refusal:
                refused.append((f"delete {kind} {name}", refusal))
    if refused:
        refusals = "; ".join(f"{what}: {refusal.detail}" for what, refusal in refused)
        remedy = "`plumbline cluster doctor` names the missing verbs; apply k8s/provider again"
        raise ApiRefused(refused[0][1].status, f"{refusals}; {remedy}. Deleted: {', '.join(deleted) or 'nothing'}")
    return deleted


def campaign_launches(campaign_id: str, provider: str) -> list[str]:
    """Names of all launches that this installation announced for a campaign on a provider.

    LookupError if the result store has no such trial; OSError if it does not answer.
    """
    home, launches, planned = stores.home(), [], False
    for trial_id in home.trial_ids(campaign_id):
        try:
            planned |= stores.planned_trial(home, {"campaign_id": campaign_id, "trial_id": trial_id}).provider.name == provider
            trials = [home.trial(folder) for folder in home.announced(campaign_id, trial_id)]
        except (FileNotFoundError, InvalidResult) as error:
            _log.warning("Skipping %s of %s: %s", trial_id, campaign_id, error)
            continue
        launches += [launch_name(trial) for trial in trials if trial.provider.name == provider]
    if not planned:
        raise LookupError(f'the result store has no trial of campaign "{campaign_id}" on {provider}')
    return launches


def _is_of(item: Row, launches: Collection[str]) -> bool:
    return item["metadata"].get("labels", {}).get(LAUNCH) in launches and "deletionTimestamp" not in item["metadata"]


def _has_expired(kind: str, item: Row, now: float, namespace: str) -> bool:
    name, expires = item["metadata"]["name"], expires_s(item)
    if expires is None:
        _log.warning("%s %s in %s has our label but no %s: skipping it", kind, name, namespace, EXPIRES)
        return False
    if expires >= now or "deletionTimestamp" in item["metadata"]:
        return False
    _log.warning("%s %s in %s outlived its launch by %.0f min: deleting it", kind, name, namespace, (now - expires) / 60)
    return True


def expires_s(item: Row) -> float | None:
    """When an object's launch is over, in seconds since the epoch; None without the annotation."""
    text = (item["metadata"].get("annotations") or {}).get(EXPIRES)
    return float(text) if text is not None and text.isdigit() else None


def count_pods(launcher: KubernetesLauncher, patience_s: float = API_PATIENCE_S) -> Leftovers:
    """BadDeclaration, ApiRefused or Unreachable if the cluster cannot be read."""
    now = datetime.now(timezone.utc)
    every = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s).pods(f"{names.MANAGED_BY}={names.MANAGER}")
    pods = [pod for pod in every if "deletionTimestamp" not in pod["metadata"]]
    campaigns = Counter(str((pod["metadata"].get("labels") or {}).get(names.CAMPAIGN, "")) for pod in pods)
    over = [pod for pod in pods if (at := expires_s(pod)) is not None and at < now.timestamp()]
    where = (
        f"connection {launcher.connection}: kubectl get pods --namespace {launcher.namespace} --selector {names.MANAGED_BY}={names.MANAGER}"
    )
    return Leftovers(dict(campaigns), len(over), now.isoformat(timespec="seconds"), where=where)
