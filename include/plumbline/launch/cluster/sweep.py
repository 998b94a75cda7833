"""Deletes what outlived every deadline: the last net, for a launch that lost its worker, its triggerer and its database row."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from plumbline.declarations import KubernetesLauncher
from plumbline.launch import stores
from plumbline.launch.cluster.api import PATIENCE_S, ClusterApi, Refused
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import EXPIRES, LAUNCH, MANAGED_BY, MANAGER, launch_name
from plumbline.results import BadResult

_log = logging.getLogger(__name__)
_GANGS = {"jobset": "JobSet", "trainjob": "TrainJob"}
# Owners first: what they own goes with them.
_KINDS = ("TrainJob", "JobSet", "Service", "Job", "Pod", "Secret")


def sweep(
    launcher: KubernetesLauncher, now_s: float | None = None, patience_s: float = PATIENCE_S, launches: Collection[str] | None = None
) -> list[str]:
    """Delete every object of ours in the provider's namespace whose time has passed; what was deleted, such as "Pod pl-x-0".

    `launches`: names of launches of which everything is deleted instead, whatever its time.

    Ours is what carries our label; its time stands in an annotation that its launch gave it. Anything else is never touched, nor is
    what is on its way out. All kinds that a launch may create are looked for, also those of another `gang` than the declared one, which
    may have been declared before.

    Raises Unreachable and BadDeclaration like the rest of the launch; Refused, after everything else was swept, if the API refuses a kind
    or a deletion.
    """
    api = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s)
    now = time.time() if now_s is None else now_s
    deleted: list[str] = []
    refused: list[tuple[str, Refused]] = []
    for kind in _KINDS:
        try:
            items = api.listed(kind, f"{MANAGED_BY}={MANAGER}")
        except Refused as refusal:
            if kind in _GANGS.values() and kind != _GANGS.get(launcher.gang) and refusal.status in (403, 404):
                _log.debug("no %s can be looked for in %s: %s", kind, launcher.namespace, refusal)
            else:
                refused.append((f"list {kind}", refusal))
            continue
        for item in items:
            if not (_over(kind, item, now, launcher.namespace) if launches is None else _of(item, launches)):
                continue
            name = item["metadata"]["name"]
            try:
                if api.delete_exactly(kind, name, item["metadata"]["uid"]):
                    deleted.append(f"{kind} {name}")
            except Refused as refusal:
                refused.append((f"delete {kind} {name}", refusal))
    if refused:
        said = "; ".join(f"{what}: {refusal.detail}" for what, refusal in refused)
        remedy = "`plumbline cluster doctor` names the verbs that are missing; apply k8s/provider again"
        raise Refused(refused[0][1].status, f"{said}; {remedy}. Swept: {', '.join(deleted) or 'nothing'}")
    return deleted


def of_campaign(campaign_id: str, provider: str) -> list[str]:
    """Names of all launches that this installation announced for a campaign on a provider; another's are none of them.

    LookupError if the result store holds no trial of the campaign there; OSError if it does not answer.
    """
    home, found, planned = stores.home(), [], False
    for trial_id in home.trial_ids(campaign_id):
        try:
            planned |= stores.planned(home, {"campaign_id": campaign_id, "trial_id": trial_id}).provider.name == provider
            trials = [home.trial(folder) for folder in home.announced(campaign_id, trial_id)]
        except (FileNotFoundError, BadResult) as error:
            _log.warning("%s of %s is left out: %s", trial_id, campaign_id, error)
            continue
        found += [launch_name(trial) for trial in trials if trial.provider.name == provider]
    if not planned:
        raise LookupError(f'the result store holds no trial of campaign "{campaign_id}" on {provider}')
    return found


def _of(item: Row, launches: Collection[str]) -> bool:
    return item["metadata"].get("labels", {}).get(LAUNCH) in launches and "deletionTimestamp" not in item["metadata"]


def _over(kind: str, item: Row, now: float, namespace: str) -> bool:
    """Whether the object's time has passed and nobody deletes it yet."""
    name, expires = item["metadata"]["name"], expires_s(item)
    if expires is None:
        _log.warning("%s %s in %s is labelled as ours and has no %s; it is left alone", kind, name, namespace, EXPIRES)
        return False
    if expires >= now or "deletionTimestamp" in item["metadata"]:
        return False
    _log.warning("%s %s in %s outlived its launch by %.0f min: to be deleted", kind, name, namespace, (now - expires) / 60)
    return True


def expires_s(item: Row) -> float | None:
    """When the launch of an object is over, in seconds since the epoch; None if the object does not say."""
    text = (item["metadata"].get("annotations") or {}).get(EXPIRES)
    return float(text) if text is not None and text.isdigit() else None
