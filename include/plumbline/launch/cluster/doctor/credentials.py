"""How long the credentials of a cluster's connection live."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, unknown


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
            else ok(_CREDENTIALS, f"accepted{who}; the token names no expiry")
        )
    if configuration.cert_file:
        from cryptography.x509 import load_pem_x509_certificate

        certificate = load_pem_x509_certificate(Path(configuration.cert_file).read_bytes())
        return _expiry_check(certificate.not_valid_after_utc, now, f" as {certificate.subject.rfc4514_string()}")
    return unknown(_CREDENTIALS, "accepted; expiry unknown without a token or client certificate", "credentials with one of both")


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
