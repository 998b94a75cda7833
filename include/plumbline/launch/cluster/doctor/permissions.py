"""What the launcher's account needs on a cluster, and how that compares with what it has.

`k8s/provider` grants exactly this: the base what every cluster needs, a component what a declared queue or gang needs besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.doctor.line import Line, failed, ok

_NAME = "permissions"
_GANGS = {"jobset": ("jobset.x-k8s.io", "jobsets"), "trainjob": ("trainer.kubeflow.org", "trainjobs")}
# Every account that could log in may ask what it may do.
_EVERYBODY = frozenset({"authorization.k8s.io", "authentication.k8s.io"})


class Permission(NamedTuple):
    """One verb on one kind of object; the core group is empty."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


def _each(group: str, resource: str, *verbs: str) -> frozenset[Permission]:
    return frozenset(Permission(group, resource, verb) for verb in verbs)


def needed(launcher: KubernetesLauncher) -> frozenset[Permission]:
    """What the launch, the doctor and the sweep of this declaration ask of the API."""
    found = (
        _each("", "pods", "create", "get", "list", "delete")
        | _each("", "pods/log", "get")
        | _each("", "services", "create", "get", "list", "delete")
        | _each("", "secrets", "create", "list", "delete")
        | _each("batch", "jobs", "list", "delete")
        | _each("", "events", "list")
        | _each("", "resourcequotas", "list")
        | _each("", "nodes", "get", "list")
    )
    if launcher.queue is not None:
        found |= _each("kueue.x-k8s.io", "localqueues", "get")
    if launcher.gang in _GANGS:
        found |= _each(*_GANGS[launcher.gang], "create", "get", "list", "delete")
    return found


def granted(rules: Iterable[Row]) -> frozenset[Permission]:
    """The rules of a SelfSubjectRulesReview, one by one; `*` stays `*`. A rule for single names grants less than the verb: left out."""
    return frozenset(
        Permission(group, resource, verb)
        for rule in rules
        if not rule.get("resourceNames")
        for group in rule.get("apiGroups") or [""]
        for resource in rule.get("resources") or []
        for verb in rule.get("verbs") or []
        if group not in _EVERYBODY
    )


def compare(has: frozenset[Permission], wanted: frozenset[Permission], namespace: str) -> list[Line]:
    """A line about verbs that are missing and one about verbs too many."""
    missing = sorted(p for p in wanted if not any(_covers(h, p) for h in has))
    surplus = sorted(has - wanted)
    apply = (
        "apply k8s/provider again (kubectl apply -k k8s/provider/overlays/<provider>), with the component for a queue, jobset or trainjob"
    )
    lines = [
        failed(_NAME, f"missing in {namespace}: {', '.join(map(str, missing))}", apply)
        if missing
        else ok(_NAME, f"all {len(wanted)} verbs that a launch needs")
    ]
    if surplus:
        shown = ", ".join(map(str, surplus[:6])) + (f" and {len(surplus) - 6} more" if len(surplus) > 6 else "")
        lines.append(
            failed(
                "least privilege",
                f"may do more than a launch needs: {shown}",
                "give the connection the launcher's own account: plumbline cluster kubeconfig PROVIDER",
            )
        )
    else:
        lines.append(ok("least privilege", "no verb more"))
    return lines


def _covers(has: Permission, wanted: Permission) -> bool:
    return all(mine in ("*", asked) for mine, asked in zip(has, wanted, strict=True))
