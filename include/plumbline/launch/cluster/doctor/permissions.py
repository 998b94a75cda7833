"""The verbs that a launcher needs in its namespace: `k8s/provider` grants exactly these, the base for every cluster, a component for a declared
queue or gang."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.doctor_check import DoctorCheck, failed, ok
from plumbline.metrics.formatting import shorten

_PERMISSIONS = "permissions"
_GANGS = {"jobset": ("jobset.x-k8s.io", "jobsets")}
# Every authenticated account may review its own permissions.
_IMPLIED = frozenset({"authorization.k8s.io", "authentication.k8s.io"})


class Permission(NamedTuple):
    """One verb on one kind of object; the core group is empty."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


def _verbs(group: str, resource: str, *verbs: str) -> frozenset[Permission]:
    return frozenset(Permission(group, resource, verb) for verb in verbs)


def required_permissions(launcher: KubernetesLauncher) -> frozenset[Permission]:
    """The verbs that launch, doctor and sweep need for this declaration."""
    permissions = (
        _verbs("", "pods", "create", "get", "list", "delete")
        | _verbs("", "pods/log", "get")
        | _verbs("", "services", "create", "get", "list", "delete")
        | _verbs("", "secrets", "create", "list", "delete")
        | _verbs("batch", "jobs", "list", "delete")
        | _verbs("networking.k8s.io", "networkpolicies", "create", "get")
        | _verbs("", "events", "list")
        | _verbs("", "resourcequotas", "list")
        | _verbs("", "nodes", "get", "list")
    )
    if launcher.queue is not None:
        permissions |= _verbs("kueue.x-k8s.io", "localqueues", "get")
    if launcher.gang in _GANGS:
        permissions |= _verbs(*_GANGS[launcher.gang], "create", "get", "list", "delete")
    if launcher.serving is not None:
        # Whichever scaler is declared: a component grants all of them.
        permissions |= _verbs("batch", "jobs", "create", "get")
        permissions |= _verbs("apps", "deployments", "create", "get")
        permissions |= _verbs("autoscaling", "horizontalpodautoscalers", "create", "get")
        permissions |= _verbs("keda.sh", "scaledobjects", "create", "get")
    return permissions


def granted_permissions(rules: Iterable[Row]) -> frozenset[Permission]:
    """The verbs that a SelfSubjectRulesReview grants; `*` stays `*`. Skips rules with resourceNames, which grant less than the verb."""
    return frozenset(
        Permission(group, resource, verb)
        for rule in rules
        if not rule.get("resourceNames")
        for group in rule.get("apiGroups") or [""]
        for resource in rule.get("resources") or []
        for verb in rule.get("verbs") or []
        if group not in _IMPLIED
    )


def compare_permissions(has: frozenset[Permission], required: frozenset[Permission], namespace: str) -> list[DoctorCheck]:
    """One check for missing verbs and one for surplus verbs."""
    missing = sorted(p for p in required if not any(all(mine in ("*", need) for mine, need in zip(h, p, strict=True)) for h in has))
    surplus = sorted(has - required)
    apply = (
        "apply k8s/provider again (kubectl apply -k k8s/provider/overlays/<provider>), with the component for a queue, jobset or serving"
    )
    lines = [
        failed(_PERMISSIONS, f"missing in {namespace}: {', '.join(map(str, missing))}", apply)
        if missing
        else ok(_PERMISSIONS, f"all {len(required)} required verbs")
    ]
    if surplus:
        lines.append(
            failed(
                "least privilege",
                f"more verbs than required: {shorten(map(str, surplus), 6)}",
                "give the connection the launcher's own account: plumbline cluster kubeconfig PROVIDER",
            )
        )
    else:
        lines.append(ok("least privilege", "no surplus verbs"))
    return lines
