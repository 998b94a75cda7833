"""Deletes what outlived every deadline: the last net, for a launch that lost its worker, its triggerer and its database row."""

from __future__ import annotations

import logging
import time

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.api import PATIENCE_S, ClusterApi
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import EXPIRES, MANAGED_BY, MANAGER

_log = logging.getLogger(__name__)
_OWNERS = {"pods": (), "jobset": ("JobSet",), "trainjob": ("TrainJob",)}


def sweep(launcher: KubernetesLauncher, now_s: float | None = None, patience_s: float = PATIENCE_S) -> list[str]:
    """Delete every object of ours in the provider's namespace whose time has passed; what was deleted, such as "Pod pl-x-0".

    Ours is what carries our label; its time stands in an annotation that its launch gave it. Anything else is never touched.
    Raises Unreachable, BadDeclaration and Refused like the rest of the launch.
    """
    api = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s)
    now = time.time() if now_s is None else now_s
    deleted = []
    # Owners first: their pods go with them.
    for kind in ("Service", *_OWNERS[launcher.gang], "Pod"):
        for item in api.listed(kind, f"{MANAGED_BY}={MANAGER}"):
            name = item["metadata"]["name"]
            expires = _expires_s(item)
            if expires is None:
                _log.warning("%s %s in %s is labelled as ours and has no %s; it is left alone", kind, name, launcher.namespace, EXPIRES)
            elif expires < now and "deletionTimestamp" not in item["metadata"]:
                _log.warning("%s %s in %s outlived its launch by %.0f min: deleted", kind, name, launcher.namespace, (now - expires) / 60)
                api.delete(kind, name)
                deleted.append(f"{kind} {name}")
    return deleted


def _expires_s(item: Row) -> float | None:
    text = (item["metadata"].get("annotations") or {}).get(EXPIRES)
    return float(text) if text is not None and text.isdigit() else None
