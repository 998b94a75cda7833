"""How long the connection's credentials will do."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from plumbline.launch.cluster.doctor.line import Line, failed, ok, unknown

SOON = timedelta(days=7)
_NAME = "credentials"
_RENEW = "make new ones: plumbline cluster kubeconfig PROVIDER (with --long-lived where the cluster grants only hours)"


def lifetime(configuration: Any, now: datetime, *, renewed: bool) -> Line:
    """From a client's configuration: a token with its end in it, or a client certificate. `renewed`: new ones come by themselves."""
    if renewed:
        return ok(_NAME, "accepted; renewed by the kubeconfig's own means")
    token = str(configuration.api_key.get("BearerToken") or configuration.api_key.get("authorization") or "").removeprefix("Bearer ")
    if token:
        claims = _claims(token)
        who = f" as {claims['sub']}" if "sub" in claims else ""
        ends = claims.get("exp")
        return _until(datetime.fromtimestamp(ends, timezone.utc), now, who) if ends else ok(_NAME, f"accepted{who}; the token has no end")
    if configuration.cert_file:
        from cryptography.x509 import load_pem_x509_certificate

        certificate = load_pem_x509_certificate(Path(configuration.cert_file).read_bytes())
        return _until(certificate.not_valid_after_utc, now, f" as {certificate.subject.rfc4514_string()}")
    return unknown(_NAME, "accepted; neither a token nor a client certificate, so that their end is not known")


def refused(status: int, said: str) -> Line:
    """The cluster does not accept the credentials at all."""
    return failed(_NAME, f"not accepted (HTTP {status}: {said})", _RENEW)


def _until(ends: datetime, now: datetime, who: str) -> Line:
    left = ends - now
    if left < SOON:
        return failed(_NAME, f"accepted{who}, but they end {_in(left)} ({ends:%Y-%m-%d %H:%M} UTC)", _RENEW)
    return ok(_NAME, f"accepted{who} until {ends:%Y-%m-%d}, {left.days} days from now")


def _in(left: timedelta) -> str:
    return f"in {left.days} days" if left.days > 1 else f"in {max(0, round(left.total_seconds() / 3600))} h"


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says of itself; empty for tokens of another kind. Its signature is the cluster's business."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
