"""How long a connection's credentials live, and the verbs that a launcher needs in its namespace: `k8s/provider` grants exactly these, the base
for every cluster, a component for a declared queue or gang."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, unknown
from plumbline.metrics.formatting import shorten


def renews_credentials(connection_id: str) -> bool:
    """Whether credentials renew themselves: by a plugin, a token file, or the pod that Airflow runs in.

    The client's configuration looks the same for a token in the kubeconfig.
    """
    import yaml
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    extras = KubernetesHook(conn_id=connection_id).conn_extras
    inline, path = extras.get("kube_config"), extras.get("kube_config_path")
    text = Path(path).expanduser().read_text() if path else json.dumps(inline) if isinstance(inline, dict) else inline
    if not text:
        return True
    read = yaml.safe_load(text)
    current = extras.get("cluster_context") or read.get("current-context")
    user = next((c["context"].get("user") for c in read.get("contexts") or [] if c["name"] == current), None)
    fields: Row = next((u.get("user") or {} for u in read.get("users") or [] if u["name"] == user), {})
    return bool({"exec", "auth-provider", "tokenFile"} & set(fields))


EXPIRY_WARNING = timedelta(days=7)
_CREDENTIALS = "credentials"
_RENEW = "create new ones: plumbline cluster kubeconfig PROVIDER (with --long-lived where the cluster grants only hours)"


def credential_lifetime(configuration: Any, now: datetime, *, renewed: bool) -> DoctorCheck:
    """When the token or client certificate of a client's configuration expires. `renewed`: the credentials renew themselves."""
    if renewed:
        return ok(_CREDENTIALS, "accepted; renewed automatically")
    token = str(configuration.api_key.get("BearerToken") or configuration.api_key.get("authorization") or "").removeprefix("Bearer ")
    if token:
        claims = _claims(token)
        who = f" as {claims['sub']}" if "sub" in claims else ""
        ends = claims.get("exp")
        return (
            _expiry_check(datetime.fromtimestamp(ends, timezone.utc), now, who)
            if ends
            else ok(_CREDENTIALS, f"accepted{who}; the token does not expire")
        )
    if configuration.cert_file:
        from cryptography.x509 import load_pem_x509_certificate

        certificate = load_pem_x509_certificate(Path(configuration.cert_file).read_bytes())
        return _expiry_check(certificate.not_valid_after_utc, now, f" as {certificate.subject.rfc4514_string()}")
    return unknown(_CREDENTIALS, "accepted; expiry unknown without a token or client certificate")


def credentials_rejected(status: int, message: str) -> DoctorCheck:
    return failed(_CREDENTIALS, f"not accepted (HTTP {status}: {message})", _RENEW)


def _expiry_check(ends: datetime, now: datetime, who: str) -> DoctorCheck:
    left = ends - now
    if left < EXPIRY_WARNING:
        when = f"{left.days} days" if left.days > 1 else f"{max(0, round(left.total_seconds() / 3600))} h"
        return failed(_CREDENTIALS, f"accepted{who}, but they expire in {when} ({ends:%Y-%m-%d %H:%M} UTC)", _RENEW)
    return ok(_CREDENTIALS, f"accepted{who} until {ends:%Y-%m-%d}, {left.days} days from now")


def _claims(token: str) -> dict[str, Any]:
    """Claims of a JWT, unverified; empty for tokens of another kind."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = from_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


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
        | _verbs("", "events", "list")
        | _verbs("", "resourcequotas", "list")
        | _verbs("", "nodes", "get", "list")
    )
    if launcher.queue is not None:
        permissions |= _verbs("kueue.x-k8s.io", "localqueues", "get")
    if launcher.gang in _GANGS:
        permissions |= _verbs(*_GANGS[launcher.gang], "create", "get", "list", "delete")
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
    apply = "apply k8s/provider again (kubectl apply -k k8s/provider/overlays/<provider>), with the component for a queue or jobset"
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
