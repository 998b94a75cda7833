"""The objects of a cluster: plain rows under one lock, with owners, finalizers and quota."""

from __future__ import annotations

import copy
import itertools
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

from tests.fakes.kubernetes_api import quota
from tests.fakes.kubernetes_api.refusals import Refused, invalid, not_found
from tests.fakes.kubernetes_api.selectors import fields_match, labels_match

Row = dict[str, Any]
KINDS: dict[str, tuple[str, str]] = {
    "pods": ("v1", "Pod"),
    "services": ("v1", "Service"),
    "events": ("v1", "Event"),
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    "resourcequotas": ("v1", "ResourceQuota"),
    "limitranges": ("v1", "LimitRange"),
    "jobs": ("batch/v1", "Job"),
    "deployments": ("apps/v1", "Deployment"),
    "horizontalpodautoscalers": ("autoscaling/v1", "HorizontalPodAutoscaler"),
    "scaledobjects": ("keda.sh/v1alpha1", "ScaledObject"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
    "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "localqueues": ("kueue.x-k8s.io/v1beta1", "LocalQueue"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "runtimeclasses": ("node.k8s.io/v1", "RuntimeClass"),
}
CLUSTER_SCOPED = frozenset({"nodes", "namespaces", "priorityclasses", "runtimeclasses"})
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")


def seconds(at: datetime | None = None) -> str:
    """A moment as most of the API gives it: whole seconds."""
    return (at or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros(at: datetime | None = None) -> str:
    """A moment as the API gives a MicroTime."""
    return (at or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Store:
    """Every object, by (plural, namespace, name). Cluster-scoped objects live in the namespace "".

    `created` and `deleted` are told of pods: `deleted` says whether it takes care of the pod's end itself.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.rows: dict[tuple[str, str, str], Row] = {}
        self.created: Callable[[str, Row], None] = lambda plural, row: None
        self.pod_deleted: Callable[[Row, int | None], None] = lambda row, grace: self.remove("pods", row)
        self._versions = itertools.count(1)

    def version(self) -> str:
        return str(next(self._versions))

    def key(self, plural: str, row: Row) -> tuple[str, str, str]:
        return plural, row["metadata"].get("namespace", ""), row["metadata"]["name"]

    def put(self, plural: str, row: Row) -> Row:
        """Store an object as it is, with what every stored object has. No controller is told."""
        with self.lock:
            api_version, kind = KINDS[plural]
            found: Row = {"apiVersion": api_version, "kind": kind, **copy.deepcopy(row)}
            meta = found.setdefault("metadata", {})
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", seconds())
            meta["resourceVersion"] = self.version()
            self.rows[self.key(plural, found)] = found
            return found

    def create(self, plural: str, namespace: str, row: Row, *, dry_run: bool = False) -> Row:
        """As POST does it. Refused: 404 for the namespace, 409, 422, 403 for a quota. `dry_run`: nothing is kept."""
        with self.lock:
            self.require_namespace(namespace)
            _, kind = KINDS[plural]
            row = copy.deepcopy(row)
            meta = row.setdefault("metadata", {})
            if "name" not in meta and "generateName" in meta:
                meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
            name = meta.get("name", "")
            if not name:
                raise invalid(kind, "", "metadata.name", "Required value: name or generateName is required")
            if not _NAME.match(name) or len(name) > 253:
                raise invalid(kind, name, "metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of …')
            if meta.setdefault("namespace", namespace) != namespace:
                raise Refused(400, f"the namespace of the provided object does not match the namespace sent on the request: {namespace}")
            if (plural, namespace, name) in self.rows:
                raise Refused(409, f'{plural} "{name}" already exists', name=name, kind=plural)
            for field in ("uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"):
                meta.pop(field, None)
            if plural == "pods":
                _check_pod(name, row)
                for held in self.list("resourcequotas", namespace):
                    quota.check(row, held, self.list("pods", namespace))
            if dry_run:
                return row
            stored = self.put(plural, row)
            self.created(plural, stored)
            answer = copy.deepcopy(stored)
            owners = {reference["uid"] for reference in meta.get("ownerReferences") or ()}
            if owners and not any(other["metadata"]["uid"] in owners for other in self.rows.values()):
                self.delete(plural, namespace, name)  # the garbage collector takes what belongs to nobody
            return answer

    def require_namespace(self, namespace: str) -> None:
        if namespace and ("namespaces", "", namespace) not in self.rows:
            raise not_found("namespaces", namespace)

    def get(self, plural: str, namespace: str, name: str) -> Row:
        """The object itself, not a copy. Refused: 404."""
        with self.lock:
            found = self.rows.get((plural, namespace, name))
            if found is None:
                raise not_found(plural, name)
            return found

    def list(self, plural: str, namespace: str | None, labels: str = "", fields: str = "") -> list[Row]:
        """Copies of the objects; `namespace` None means all."""
        with self.lock:
            found = [
                row for (kind, space, _), row in sorted(self.rows.items()) if kind == plural and (namespace is None or space == namespace)
            ]
            return [
                copy.deepcopy(row)
                for row in found
                if labels_match(labels, row["metadata"].get("labels") or {}) and fields_match(fields, row)
            ]

    def patch(self, plural: str, namespace: str, name: str, patch: Row) -> Row:
        """A merge patch."""
        with self.lock:
            row = self.get(plural, namespace, name)
            _merge(row, patch)
            row["metadata"]["resourceVersion"] = self.version()
            return copy.deepcopy(row)

    def delete(self, plural: str, namespace: str, name: str, *, grace: int | None = None, propagation: str = "", uid: str = "") -> Row:
        """As DELETE does it: pods end in their own time, owners take their dependents along."""
        with self.lock:
            row = self.get(plural, namespace, name)
            if uid and row["metadata"]["uid"] != uid:
                held = row["metadata"]["uid"]
                raise Refused(409, f"the UID in the precondition ({uid}) does not match the UID in record ({held})", "Conflict")
            if plural == "pods":
                self.pod_deleted(row, grace)
            elif propagation == "Foreground":
                self.touch(row, deletionTimestamp=seconds(), finalizers=["foregroundDeletion"])
                for kind, dependent in list(self._dependents(row)):
                    self.delete(kind, *self.key(kind, dependent)[1:], propagation="Foreground")
                self._settle()
            else:
                if propagation == "Orphan":
                    for _, dependent in self._dependents(row):
                        dependent["metadata"].pop("ownerReferences")
                self.remove(plural, row)
            return copy.deepcopy(row)

    def remove(self, plural: str, row: Row) -> None:
        """The object is gone now; what it owned follows."""
        with self.lock:
            if self.rows.get(self.key(plural, row)) is not row:
                return
            del self.rows[self.key(plural, row)]
            for kind, dependent in list(self._dependents(row)):
                if "deletionTimestamp" not in dependent["metadata"]:
                    self.delete(kind, *self.key(kind, dependent)[1:])
            self._settle()

    def touch(self, row: Row, **metadata: Any) -> None:
        with self.lock:
            row["metadata"].update(metadata, resourceVersion=self.version())

    def _dependents(self, owner: Row) -> Iterator[tuple[str, Row]]:
        uid = owner["metadata"]["uid"]
        for (plural, _, _), row in list(self.rows.items()):
            if any(reference.get("uid") == uid for reference in row["metadata"].get("ownerReferences") or ()):
                yield plural, row

    def _settle(self) -> None:
        """Owners that waited for their dependents go when the last one is gone."""
        for (plural, _, _), row in list(self.rows.items()):
            if "foregroundDeletion" in (row["metadata"].get("finalizers") or ()) and not any(self._dependents(row)):
                self.remove(plural, row)

    def quota_used(self, namespace: str, hard: Row) -> dict[str, float]:
        """What the namespace's live pods use of a quota."""
        return quota.used(self.list("pods", namespace), hard)


def _check_pod(name: str, row: Row) -> None:
    containers = (row.get("spec") or {}).get("containers") or []
    if not containers:
        raise invalid("Pod", name, "spec.containers", "Required value")
    for index, container in enumerate(containers):
        if not container.get("image"):
            raise invalid("Pod", name, f"spec.containers[{index}].image", "Required value")


def _merge(row: Row, patch: Row) -> None:
    for key, value in patch.items():
        if value is None:
            row.pop(key, None)
        elif isinstance(value, dict) and isinstance(row.get(key), dict):
            _merge(row[key], value)
        else:
            row[key] = copy.deepcopy(value)
