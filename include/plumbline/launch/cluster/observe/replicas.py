"""Replicas of a Deployment, as they are now and while a trial runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from plumbline.declarations.providers.endpoint import Deployment
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.names import Row
from plumbline.launch.failures import ApiRefused, BadDeclaration, Unreachable
from plumbline.results.document import ReplicaCount

REPLICAS_POLL_S = 2.0
"""Most seconds between polls while replicas are watched: they come and go within tens of seconds."""
_log = logging.getLogger(__name__)


def replica_count(deployment: Row) -> ReplicaCount:
    """What the API says of a Deployment at this moment."""
    ready, wanted = (deployment.get("status") or {}).get("readyReplicas") or 0, (deployment.get("spec") or {}).get("replicas") or 0
    return ReplicaCount(at=time.time(), ready=ready, wanted=wanted)


def missing_pods(deployment: Row) -> str:
    """Why the cluster creates no more pods of a Deployment, such as a quota; empty if it does not say so."""
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    return next(
        (str(each.get("message")) for each in conditions if each.get("type") == "ReplicaFailure" and each.get("status") == "True"), ""
    )


@contextmanager
def recorded_replicas(declared: Deployment) -> Iterator[list[ReplicaCount]]:
    """Every change of the Deployment's replicas while the block runs. BadDeclaration without such a Deployment or the right to read it,
    Unreachable; a failure later on only leaves a gap."""
    api, over = ClusterApi(declared.connection, declared.namespace, patience_s=10.0), threading.Event()
    where = f"launcher.deployment: {declared.name} in {declared.namespace} of {declared.connection}"
    try:
        found = api.get("Deployment", declared.name)
    except ApiRefused as refusal:
        raise BadDeclaration(f"{where} cannot be read: {refusal}; expected the right to get deployments.apps") from refusal
    if found is None:
        raise BadDeclaration(f"{where} does not exist; expected the Deployment behind the endpoint")
    counts = [replica_count(found)]

    def poll() -> None:
        while not over.wait(REPLICAS_POLL_S):
            try:
                now = replica_count(api.get("Deployment", declared.name) or {})
            except (ApiRefused, BadDeclaration, Unreachable) as error:
                _log.warning("The replicas of %s could not be read: %s", declared.name, error)
                continue
            if (now.ready, now.wanted) != (counts[-1].ready, counts[-1].wanted):
                counts.append(now)

    polling = threading.Thread(target=poll, name="replicas", daemon=True)
    polling.start()
    try:
        yield counts
    finally:
        over.set()
        polling.join()
