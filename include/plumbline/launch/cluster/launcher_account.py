"""Kubeconfig for Airflow: one service account, one namespace, no administrator rights."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from plumbline.launch.cluster.names import Row

SERVICE_ACCOUNT = "plumbline-launcher"
TOKEN_SECRET = f"{SERVICE_ACCOUNT}-token"
"""Name of the Secret that holds a token without an end; deleting it revokes the token."""
MIN_LIFETIME_S = 600.0
"""Clusters refuse to make tokens that live less."""
_TIMEOUT_S = 20.0
_TOKEN_WAIT_S = 15.0


class AccessError(ValueError):
    """No access could be made; the message says what stands in the way and what to do."""


@dataclass(frozen=True)
class GrantedAccess:
    """`expires`: None for a token without an end. `shortened`: the cluster granted clearly less than was asked for."""

    kubeconfig: Row
    namespace: str
    expires: datetime | None
    shortened: bool = False

    def as_connection(self) -> Row:
        """The Airflow connection, as `airflow connections import` and the variables AIRFLOW_CONN_… take it."""
        extra = {"kube_config": json.dumps(self.kubeconfig), "namespace": self.namespace}
        return {"conn_type": "kubernetes", "description": f"Plumbline's launcher in {self.namespace}", "extra": json.dumps(extra)}


def admin_client(kubeconfig: Path | None = None, context: str | None = None) -> Any:
    """A client with the administrator's own credentials: a kubeconfig (default: KUBECONFIG, ~/.kube/config) and one of its contexts."""
    from kubernetes.config import ConfigException, new_client_from_config

    try:
        return new_client_from_config(config_file=str(kubeconfig) if kubeconfig else None, context=context, persist_config=False)
    except (ConfigException, OSError) as error:
        raise AccessError(
            f"no administrator's access: {error}; expected a kubeconfig (KUBECONFIG or --admin-kubeconfig) with "
            f"{f'the context {context}' if context else 'a current context'}; `kubectl config get-contexts` lists them"
        ) from error


def grant_access(client: Any, namespace: str, *, lifetime_s: float | None, server: str | None = None) -> GrantedAccess:
    """A kubeconfig for the launcher's account in `namespace`, in force at once.

    `lifetime_s`: how long its token is to live; None for one without an end (a Secret, LONG_LIVED). `server`: the API's address as
    Airflow reaches it, if it differs from the administrator's. Raises AccessError.
    """
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        token, expires = _read_long_lived(client, namespace) if lifetime_s is None else _request_token(client, namespace, lifetime_s)
    except ApiException as error:
        raise AccessError(_refusal(error, namespace, "secrets" if lifetime_s is None else "serviceaccounts/token")) from error
    except HTTPError as error:
        raise AccessError(
            f"{client.configuration.host} does not answer: {error}; is it the right context, is the network in between open?"
        ) from error
    granted_s = (expires - datetime.now(timezone.utc)).total_seconds() if expires else None
    shortened = lifetime_s is not None and granted_s is not None and granted_s < 0.9 * lifetime_s
    return GrantedAccess(_kubeconfig(client.configuration, namespace, token, server), namespace, expires, shortened)


def _request_token(client: Any, namespace: str, lifetime_s: float) -> tuple[str, datetime]:
    from kubernetes.client import CoreV1Api

    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": int(lifetime_s)}}
    said = CoreV1Api(client).create_namespaced_service_account_token(SERVICE_ACCOUNT, namespace, asked, _request_timeout=_TIMEOUT_S)
    return said.status.token, said.status.expiration_timestamp


def _read_long_lived(client: Any, namespace: str) -> tuple[str, None]:
    """The token of a Secret: the same on clusters before 1.24, which made such Secrets by themselves, and after."""
    from kubernetes.client import CoreV1Api
    from kubernetes.client.exceptions import ApiException

    core = CoreV1Api(client)
    core.read_namespaced_service_account(SERVICE_ACCOUNT, namespace, _request_timeout=_TIMEOUT_S)  # a Secret of no account stays empty
    metadata = {"name": TOKEN_SECRET, "annotations": {"kubernetes.io/service-account.name": SERVICE_ACCOUNT}}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}
    try:
        core.create_namespaced_secret(namespace, secret, _request_timeout=_TIMEOUT_S)
    except ApiException as error:
        if error.status != 409:
            raise
    until = time.monotonic() + _TOKEN_WAIT_S
    while time.monotonic() < until:
        found = core.read_namespaced_secret(TOKEN_SECRET, namespace, _request_timeout=_TIMEOUT_S).data or {}
        if found.get("token"):
            return base64.b64decode(found["token"]).decode(), None
        time.sleep(0.2)
    raise AccessError(
        f"the cluster put no token into the Secret {TOKEN_SECRET} of {namespace} within {timedelta(seconds=_TOKEN_WAIT_S)}; "
        "its token controller may be off: ask for a token with --lifetime instead"
    )


def _refusal(error: Any, namespace: str, needed: str) -> str:
    said = _api_message(error)
    if error.status == 404:
        return (
            f"the cluster has no service account {SERVICE_ACCOUNT} in the namespace {namespace} ({said}); "
            "apply k8s/provider first: kubectl apply -k k8s/provider/overlays/<provider>"
        )
    if error.status in (401, 403):
        return f"these credentials may not create {needed} in {namespace} ({said}); use an administrator's kubeconfig or --context"
    return f"the cluster refused (HTTP {error.status}): {said}"


def _api_message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _kubeconfig(configuration: Any, namespace: str, token: str, server: str | None) -> Row:
    cluster: Row = {"server": server or configuration.host}
    if configuration.ssl_ca_cert:
        cluster["certificate-authority-data"] = base64.b64encode(Path(configuration.ssl_ca_cert).read_bytes()).decode()
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    if configuration.tls_server_name:
        cluster["tls-server-name"] = configuration.tls_server_name
    if configuration.proxy:
        cluster["proxy-url"] = configuration.proxy
    name = "plumbline"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": SERVICE_ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": SERVICE_ACCOUNT, "namespace": namespace}}],
        "current-context": name,
    }
