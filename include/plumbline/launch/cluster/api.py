"""The cluster's API: plain rows in and out, so that fields that the client's version does not know are kept; bounded patience; typed refusals."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import responses
from typing import Any
from urllib.parse import urlencode

from pydantic_core import from_json

from plumbline.declarations.urls import sends_in_clear
from plumbline.launch.cluster.names import LAUNCH, Row
from plumbline.launch.connections import require_answer
from plumbline.launch.failures import ApiRefused, BadDeclaration, RequestFailed, UndefinedConnection, Unreachable

_log = logging.getLogger(__name__)

API_PATIENCE_S = 120.0
_TIMEOUT_S = 20.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0
_POLL_S = 1.0
# 408, 410 and 429 say "not now"; the others of these are the control plane's own trouble.
_TRANSIENT = frozenset({408, 410, 425, 429, 500, 502, 503, 504})
_COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Event": "/api/v1/namespaces/{namespace}/events",
    "ResourceQuota": "/api/v1/namespaces/{namespace}/resourcequotas",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers",
    "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{namespace}/scaledobjects",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets",
}
_WHOLE = "application/json, */*"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Media types: objects as they are, or their metadata alone."""


class NoAnswer(Exception):
    """No response came back. `kind`: the class of the network's error, such as ReadTimeoutError."""

    def __init__(self, detail: str, kind: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass(frozen=True)
class ApiAnswer:
    """One response of the API, also a refusal. `seconds`: from request to response."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    seconds: float

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @cached_property
    def row(self) -> Row:
        """The body if it is a JSON object, else empty: proxies in between answer with pages of their own."""
        try:
            body = from_json(self.body)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def date(self) -> datetime | None:
        """The server's clock, in whole seconds."""
        date = self.headers.get("Date")
        return parsedate_to_datetime(date) if date else None

    @property
    def retry_after_s(self) -> float:
        """Seconds of Retry-After; 0 without a number."""
        value = self.headers.get("Retry-After", "")
        return float(value) if value.isdigit() else 0.0

    @property
    def detail(self) -> str:
        """The API's own message about a refusal."""
        message = self.row.get("message") or ("" if self.row else self.text[:300].strip())
        return str(message or responses.get(self.status, f"HTTP {self.status}"))


MAX_ANSWER = 64 << 20
"""Bytes of an answer: a thousand pods take ten million."""


class ClusterApi:
    """One namespace of the cluster behind an Airflow connection (of the type `kubernetes`).

    `ask` and `send_once` never repeat a request, but for `send_once` with renewed credentials. Every other method retries lost connections, slow answers, 429
    and 5xx for `patience_s` seconds, then raises Unreachable; on 401 it reads the connection again; any other refusal raises ApiRefused. BadDeclaration if the connection is not
    defined or has no usable kubeconfig. `client`: a client of the kubernetes library in place of the connection's.
    """

    def __init__(
        self, connection_id: str, namespace: str, *, patience_s: float = API_PATIENCE_S, timeout_s: float = _TIMEOUT_S, client: Any = None
    ) -> None:
        self._connection_id, self.namespace = connection_id, namespace
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._client = client

    def open(self) -> None:
        """Read the connection unless it was read."""
        if self._client is None:
            self._client = open_client(self._connection_id)

    @property
    def configuration(self) -> Any:
        """The kubernetes library's configuration: host and credentials."""
        self.open()
        return self._client.configuration

    def ask(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Row | None = None, accept: str = _WHOLE
    ) -> ApiAnswer:
        """One request, never repeated; a refusal is an answer too. NoAnswer if no response came back."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        self.open()
        headers = {"Accept": accept, "Content-Type": "application/json"}
        self._client.update_params_for_auth(headers, [], ["BearerToken"])
        url = f"{self._client.configuration.host}{path}{'?' + urlencode(query) if query else ''}"
        timeout = (min(5.0, self._timeout_s), self._timeout_s)
        began = time.monotonic()
        try:
            response = self._client.request(method, url, headers=headers, body=body, _preload_content=False, _request_timeout=timeout)
            status, data, sent = response.status, response.read(MAX_ANSWER + 1, decode_content=True), response.headers
            response.release_conn()
            if len(data) > MAX_ANSWER:
                response.close()
                raise NoAnswer(f"the answer has more than {MAX_ANSWER >> 20} MiB; expected one of Kubernetes' API", "AnswerTooLarge")
        except ApiException as error:
            status, data, sent = int(error.status or 0), error.body or b"", error.headers or {}
        except (HTTPError, OSError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}", type(error).__name__) from error
        return ApiAnswer(status, data.encode() if isinstance(data, str) else bytes(data), sent, time.monotonic() - began)

    def send_once(self, method: str, path: str, **request: Any) -> ApiAnswer:
        """The good answer to one request. RequestFailed if a retry may help, else ApiRefused."""
        try:
            answer = self.ask(method, path, **request)
            if answer.status == 401:  # tokens are rotated
                _log.info("The cluster of connection %s did not accept its credentials; reading the connection again.", self._connection_id)
                self._client = None
                answer = self.ask(method, path, **request)
        except NoAnswer as error:
            raise RequestFailed(f"{method} {path}: {error}") from error
        if answer.ok:
            return answer
        # A quota that two requests change at once makes the second one a conflict: the same request will do. One that names a uid will not.
        contended = answer.status == 409 and answer.row.get("reason") == "Conflict" and "precondition" not in answer.detail.lower()
        if answer.status == 0 or answer.status in _TRANSIENT or contended:
            raise RequestFailed(f"{method} {path}: HTTP {answer.status}: {answer.detail}", answer.status, answer.retry_after_s)
        raise ApiRefused(answer.status, answer.detail)

    def create(self, row: Row) -> Row:
        """Create an object; the object as the API stores it. Adopts an existing one with the label of the same launch."""
        kind, name = row["kind"], row["metadata"]["name"]
        while True:
            try:
                return dict(self._json("POST", self.path(kind), body=row))
            except ApiRefused as refusal:
                if refusal.status != 409:
                    raise
                existing = self.get(kind, name)
                if existing is None:  # it was deleted between the two requests
                    continue
                if existing["metadata"].get("labels", {}).get(LAUNCH) != row["metadata"]["labels"][LAUNCH]:
                    raise ApiRefused(
                        409, f"{kind} {name} exists in {self.namespace} and belongs to another launch; delete or rename it"
                    ) from None
                return existing

    def create_secret(self, row: Row) -> None:
        """Create a Secret; replaces one of the same name."""
        path = self.path("Secret")
        try:
            self._send("POST", path, body=row)
        except ApiRefused as refusal:
            if refusal.status != 409:
                raise
            self.delete("Secret", row["metadata"]["name"])
            self._send("POST", path, body=row)

    def get(self, kind: str, name: str) -> Row | None:
        return self._json_or_none("GET", f"{self.path(kind)}/{name}")

    def pods(self, selector: str) -> list[Row]:
        return self.listed("Pod", selector)

    def listed(self, kind: str, selector: str) -> list[Row]:
        """Objects of a kind by label selector; of Secrets only metadata, so that no value is ever read back."""
        return self._items(self.path(kind), accept=_METADATA if kind == "Secret" else _WHOLE, labelSelector=selector)

    def events(self, names: Iterable[str]) -> list[Row]:
        """Core events about objects of these names."""
        return [item for name in names for item in self._items(self.path("Event"), fieldSelector=f"involvedObject.name={name}")]

    def node(self, name: str) -> Row | None:
        return self._json_or_none("GET", f"/api/v1/nodes/{name}")

    def nodes(self, selector: str = "") -> list[Row]:
        """Nodes by label selector; all nodes without one."""
        return self._items("/api/v1/nodes", **({"labelSelector": selector} if selector else {}))

    def groups(self) -> frozenset[str]:
        """Names of the API's groups, such as apps: with those of extensions that are there."""
        return frozenset(group["name"] for group in self._json("GET", "/apis")["groups"])

    def version(self) -> str:
        """The API server's version, such as v1.32.4."""
        return str(self._json("GET", "/version")["gitVersion"])

    def log(self, pod: str, container: str, most_bytes: int) -> bytes:
        """The end of a container's log, at most `most_bytes`; empty if the pod is gone."""
        # The API's limitBytes keeps the beginning of a log; a crash is at its end.
        query = {"container": container, "tailLines": str(most_bytes // 64)}
        try:
            return self._send("GET", f"{self.path('Pod')}/{pod}/log", query=query)[-most_bytes:]
        except ApiRefused as refusal:
            if refusal.status in (400, 404):  # 400: its container never started
                return b""
            raise

    def delete(self, kind: str, name: str, grace_s: int | None = None) -> None:
        """Request an object's deletion, after everything that it owns; nothing if it does not exist."""
        # A Secret owns nothing: in the foreground it would stay until the garbage collector came by.
        policy = "Background" if kind == "Secret" else "Foreground"
        grace: Row = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy, **grace}
        self._json_or_none("DELETE", f"{self.path(kind)}/{name}", body=options)

    def delete_exactly(self, kind: str, name: str, uid: str) -> bool:
        """Delete an object of this uid with everything that it owns; False if it is gone or another one."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            return self._json_or_none("DELETE", f"{self.path(kind)}/{name}", body=options) is not None
        except ApiRefused as refusal:
            if refusal.status == 409:
                return False
            raise

    def request_deletion(self, owner: Row | None, selector: str, secret: str | None = None) -> None:
        """Request the deletion of the owner, of every pod of the selector, and of the Secret, without waiting."""
        if owner:
            self.delete(owner["kind"], owner["metadata"]["name"])
        for pod in self.pods(selector):
            if "deletionTimestamp" not in pod["metadata"]:
                self.delete("Pod", pod["metadata"]["name"])
        if secret is not None:
            self.delete("Secret", secret)

    def remove(self, owner: Row | None, selector: str, *, wait_s: float, secret: str | None = None) -> list[str]:
        """Delete the owner, every pod of the selector and the Secret, and wait until owner and pods are gone.

        Returns what still exists after `wait_s` seconds, such as "Pod pl-x-0 (deletion requested at …)".
        """
        self.request_deletion(owner, selector, secret)
        deadline = time.monotonic() + wait_s
        while True:
            remaining = self.get(owner["kind"], owner["metadata"]["name"]) if owner else None
            left = [*self.pods(selector), *([remaining] if remaining else [])]
            if not left or time.monotonic() > deadline:
                return [_describe_remaining(item) for item in left]
            time.sleep(_POLL_S)

    def path(self, kind: str) -> str:
        """The path of a kind's objects in the namespace."""
        return _COLLECTIONS[kind].format(namespace=self.namespace)

    def _items(self, path: str, accept: str = _WHOLE, **query: str) -> list[Row]:
        return list(self._json("GET", path, query=query, accept=accept).get("items") or [])

    def _json_or_none(self, method: str, path: str, body: Row | None = None) -> Row | None:
        try:
            return dict(self._json(method, path, body=body))
        except ApiRefused as refusal:
            if refusal.status == 404:
                return None
            raise

    def _json(self, method: str, path: str, **request: Any) -> Any:
        return json.loads(self._send(method, path, **request))

    def _send(self, method: str, path: str, **request: Any) -> bytes:
        import tenacity

        def wait(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(error.retry_after_s if isinstance(error, RequestFailed) else 0.0, grow(state))

        grow = tenacity.wait_random_exponential(multiplier=_FIRST_WAIT_S, min=_FIRST_WAIT_S / 2, max=_LONGEST_WAIT_S)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(RequestFailed),
            wait=wait,
            stop=tenacity.stop_before_delay(self._patience_s),
            reraise=True,
        )
        try:
            return retrying(self.send_once, method, path, **request).body
        except RequestFailed as error:
            raise Unreachable(
                f"the cluster of connection {self._connection_id} was unreachable for {self._patience_s:g} s: {error}; "
                "`plumbline cluster doctor` finds the cause"
            ) from error


def _describe_remaining(item: Row) -> str:
    metadata = item["metadata"]
    since = metadata.get("deletionTimestamp")
    holds = f", held by finalizers {', '.join(metadata['finalizers'])}" if metadata.get("finalizers") else ""
    return f"{item.get('kind') or 'Pod'} {metadata['name']} (deletion {f'requested at {since}' if since else 'not accepted'}{holds})"


def open_client(connection_id: str) -> Any:
    """A client with the connection's credentials, as Airflow's own hook reads them. BadDeclaration without usable ones, Unreachable if Airflow's
    API does not answer."""
    import yaml
    from airflow.exceptions import AirflowException, AirflowNotFoundException
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes.client import ApiClient
    from kubernetes.config import ConfigException

    remedy = "create one with `plumbline cluster kubeconfig PROVIDER`"
    try:
        configuration = KubernetesHook(conn_id=connection_id).api_client.configuration
    except (yaml.YAMLError, ValueError):
        # Their messages quote the text, which may hold a token.
        raise BadDeclaration(f"Airflow connection {connection_id}: the kubeconfig is not valid YAML or JSON; {remedy}") from None
    except (AirflowException, ConfigException, OSError) as error:
        if isinstance(error, AirflowNotFoundException):
            try:
                require_answer(connection_id)
            except ConnectionError as away:
                raise Unreachable(str(away)) from away
            raise UndefinedConnection(f"Airflow connection {connection_id} gives no access to a cluster: {error}; {remedy}") from error
        raise BadDeclaration(f"Airflow connection {connection_id} gives no access to a cluster: {error}; {remedy}") from error
    if (configuration.api_key or configuration.password) and sends_in_clear(configuration.host):
        raise BadDeclaration(f"Airflow connection {connection_id} has a server of plain http, which would get its token in clear; {remedy}")
    # ClusterApi bounds the retries: urllib3 would sleep as long as a Retry-After says.
    configuration.retries = False
    return ApiClient(configuration)
