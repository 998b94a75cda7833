"""Kubeconfig for Airflow: one service account, one namespace, no administrator rights."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from plumbline.launch.cluster.api import ApiAnswer, ClusterApi, NoAnswer
from plumbline.launch.cluster.names import Row

SERVICE_ACCOUNT = "plumbline-launcher"
TOKEN_SECRET = f"{SERVICE_ACCOUNT}-token"
"""Name of the Secret that holds a token without an end; deleting it revokes the token."""
MIN_LIFETIME_S = 600.0
"""Clusters refuse to make tokens that live less."""
_TOKEN_WAIT_S = 15.0


class AccessError(ValueError):
    """Access could not be granted; the message names the obstacle and the remedy."""


@dataclass(frozen=True)
class GrantedAccess:
    """`expires`: None for a token without an end. `shortened`: the cluster granted clearly less than requested."""

    kubeconfig: Row
    namespace: str
    expires: datetime | None
    shortened: bool = False

    def as_connection(self) -> Row:
        """The Airflow connection, as `airflow connections import` and the variables AIRFLOW_CONN_… take it."""
        extra = {"kube_config": json.dumps(self.kubeconfig), "namespace": self.namespace}
        return {"conn_type": "kubernetes", "description": f"Plumbline's launcher in {self.namespace}", "extra": json.dumps(extra)}


def admin_client(kubeconfig: Path | None = None, context: str | None = None) -> Any:
    """A client with the administrator's credentials. `kubeconfig` defaults to KUBECONFIG or ~/.kube/config. Raises AccessError."""
    from kubernetes.config import ConfigException, new_client_from_config

    try:
        return new_client_from_config(config_file=str(kubeconfig) if kubeconfig else None, context=context, persist_config=False)
    except (ConfigException, OSError) as error:
        raise AccessError(
            f"the administrator's kubeconfig cannot be used: {error}; expected one (KUBECONFIG or --admin-kubeconfig) with "
            f"{f'the context {context}' if context else 'a current context'}; `kubectl config get-contexts` lists them"
        ) from error


def grant_access(client: Any, namespace: str, *, lifetime_s: float | None, server: str | None = None) -> GrantedAccess:
    """A kubeconfig for the launcher's account in `namespace`, in force at once.

    `client`: of `admin_client`. `lifetime_s`: of its token; None for one without an end, kept in the Secret TOKEN_SECRET. `server`: the
    API's address as Airflow reaches it, if it differs from the administrator's. Raises AccessError.
    """
    api = ClusterApi("", namespace, client=client)
    try:
        token, expires = _read_long_lived(api) if lifetime_s is None else _request_token(api, lifetime_s)
    except NoAnswer as error:
        raise AccessError(f"{client.configuration.host} does not answer: {error}; check the context and the network in between") from error
    granted_s = (expires - datetime.now(timezone.utc)).total_seconds() if expires else None
    shortened = lifetime_s is not None and granted_s is not None and granted_s < 0.9 * lifetime_s
    return GrantedAccess(_kubeconfig(client.configuration, namespace, token, server), namespace, expires, shortened)


def _request_token(api: ClusterApi, lifetime_s: float) -> tuple[str, datetime]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": int(lifetime_s)}}
    answer = api.ask("POST", f"{_account_path(api)}/token", body=body)
    status = _checked(api, answer, "serviceaccounts/token")["status"]
    return status["token"], datetime.fromisoformat(status["expirationTimestamp"].replace("Z", "+00:00"))


def _read_long_lived(api: ClusterApi) -> tuple[str, None]:
    """The token of the account's Secret, which clusters since 1.24 create only on request."""
    _checked(api, api.ask("GET", _account_path(api)), "secrets")  # a Secret of no account stays empty
    metadata = {"name": TOKEN_SECRET, "annotations": {"kubernetes.io/service-account.name": SERVICE_ACCOUNT}}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}
    created = api.ask("POST", api.path("Secret"), body=secret)
    if created.status != 409:
        _checked(api, created, "secrets")
    until = time.monotonic() + _TOKEN_WAIT_S
    while time.monotonic() < until:
        row = _checked(api, api.ask("GET", f"{api.path('Secret')}/{TOKEN_SECRET}"), "secrets")
        if token := (row.get("data") or {}).get("token"):
            return base64.b64decode(token).decode(), None
        time.sleep(0.2)
    raise AccessError(
        f"the Secret {TOKEN_SECRET} of {api.namespace} has no token after {timedelta(seconds=_TOKEN_WAIT_S)}; "
        "the cluster's token controller may be off: request a token with --lifetime instead"
    )


def _account_path(api: ClusterApi) -> str:
    return f"{api.path('ServiceAccount')}/{SERVICE_ACCOUNT}"


def _checked(api: ClusterApi, answer: ApiAnswer, needed: str) -> Row:
    """The object in the answer; AccessError for a refusal. `needed`: the objects that the administrator must be allowed to create."""
    if answer.ok:
        return answer.row
    if answer.status == 404:
        raise AccessError(
            f"service account {SERVICE_ACCOUNT} does not exist in the namespace {api.namespace} ({answer.detail}); "
            "apply k8s/provider first: kubectl apply -k k8s/provider/overlays/<provider>"
        )
    if answer.status in (401, 403):
        raise AccessError(
            f"these credentials may not create {needed} in {api.namespace} ({answer.detail}); use an administrator's kubeconfig or --context"
        )
    raise AccessError(f"the cluster refused the request: HTTP {answer.status}: {answer.detail}")


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
