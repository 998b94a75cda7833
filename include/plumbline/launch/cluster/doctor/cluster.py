"""The doctor's questions to a cluster: asked once each, with what an answer's headers and its delay tell."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from plumbline.launch.cluster.api import open_client
from plumbline.launch.cluster.base import Row

_CONNECT_S, _READ_S = 5.0, 15.0


class NoAnswer(Exception):
    """The API could not be asked. The message says what happened, `remedy` what to look at."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class Answer:
    """`row`: the body if it is an object. `date`: the server's clock in whole seconds. `seconds`: from question to answer."""

    status: int
    row: Row
    text: str
    date: datetime | None
    seconds: float

    @property
    def said(self) -> str:
        """The API's own words about a refusal."""
        return str(self.row.get("message") or self.text[:200].strip() or f"HTTP {self.status}")


class Cluster:
    """One namespace of the cluster behind an Airflow connection. BadDeclaration if the connection gives no access."""

    def __init__(self, connection_id: str, namespace: str) -> None:
        self.namespace = namespace
        self._client = open_client(connection_id)
        self.configuration: Any = self._client.configuration
        self.renews_credentials = _renews(connection_id)

    def ask(self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Row | None = None) -> Answer:
        """One request; refusals are answers too. NoAnswer if nothing came back."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        headers = {"Accept": "application/json, */*", "Content-Type": "application/json"}
        self._client.update_params_for_auth(headers, [], ["BearerToken"])
        url = f"{self.configuration.host}{path}{'?' + urlencode(query) if query else ''}"
        began = time.monotonic()
        try:
            response = self._client.request(
                method, url, headers=headers, body=body, _preload_content=False, _request_timeout=(_CONNECT_S, _READ_S)
            )
            status, data, told = response.status, response.data, response.headers
        except ApiException as error:
            status, data, told = int(error.status or 0), error.body or b"", error.headers or {}
        except (HTTPError, OSError) as error:
            raise NoAnswer(f"{self.configuration.host}: {type(error).__name__}: {error}", _remedy(type(error).__name__)) from error
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
        date = told.get("Date")
        return Answer(status, _row(text), text, parsedate_to_datetime(date) if date else None, time.monotonic() - began)

    def inside(self, rest: str) -> str:
        """A core path of the namespace, such as `pods`."""
        return f"/api/v1/namespaces/{self.namespace}/{rest}"


def _renews(connection_id: str) -> bool:
    """Whether new credentials come by themselves: from a plugin, a file that somebody keeps fresh, or the pod that Airflow runs in.

    The client's own configuration does not tell: it looks the same for a token that stands in the kubeconfig.
    """
    import yaml
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    extras = KubernetesHook(conn_id=connection_id).conn_extras
    held, path = extras.get("kube_config"), extras.get("kube_config_path")
    text = Path(path).expanduser().read_text() if path else json.dumps(held) if isinstance(held, dict) else held
    if not text:
        return True
    read = yaml.safe_load(text)
    current = extras.get("cluster_context") or read.get("current-context")
    user = next((c["context"].get("user") for c in read.get("contexts") or [] if c["name"] == current), None)
    found: Row = next((u.get("user") or {} for u in read.get("users") or [] if u["name"] == user), {})
    return bool({"exec", "auth-provider", "tokenFile"} & set(found))


def _row(text: str) -> Row:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _remedy(kind: str) -> str:
    return {
        "SSLError": "the kubeconfig's certificate-authority-data is not this server's, or the address is not in its certificate: "
        "make a new kubeconfig (plumbline cluster kubeconfig PROVIDER)",
        "NameResolutionError": "the name does not resolve here; is this a private cluster whose DNS zone this network does not see?",
        "ConnectTimeoutError": "a firewall drops the connection: allow this machine's address in the cluster's authorized networks",
        "ReadTimeoutError": "it takes connections and does not answer: is the control plane healthy? See the provider's status page",
    }.get(kind, "is the address right (--server of plumbline cluster kubeconfig), is the cluster up, does a proxy stand in between?")
