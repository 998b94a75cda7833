"""The cluster's API for Airflow's triggerer: one open connection a watch, a time limit on each request, nothing that blocks the event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from email.utils import parsedate_to_datetime
from typing import Any

import anyio
from aiohttp import ClientError

from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.outage import NotAnswered
from plumbline.launch.cluster.pod_state import container_of, name_of

_FOREGROUND = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}


class AsyncCluster:
    """One namespace of the cluster behind an Airflow connection of the type `kubernetes`, between `async with` and its end.

    Every method raises NotAnswered for whatever is not a good answer: no connection, no answer within `request_timeout_s`, any HTTP status
    but 2xx. On 401 the connection is read once more and the request repeated: tokens are rotated and run out.
    """

    def __init__(self, connection: str, namespace: str, request_timeout_s: float) -> None:
        self._connection, self._space, self._timeout_s = connection, namespace, request_timeout_s
        self._open = AsyncExitStack()
        self._client: Any = None

    async def __aenter__(self) -> AsyncCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def pods(self, selector: str, *, cached: bool) -> tuple[list[Row], float]:
        """Pods of a label selector, and the cluster's clock. `cached`: as the API server remembers them, which spares etcd but may be old."""
        query = {"labelSelector": selector, **({"resourceVersion": "0"} if cached else {})}
        text, at = await self._ask("GET", f"/api/v1/namespaces/{self._space}/pods", query)
        return _items(text), at

    async def events(self, pod: str) -> list[Row]:
        """Events about a pod."""
        query = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}", "limit": "200"}
        text, _ = await self._ask("GET", f"/api/v1/namespaces/{self._space}/events", query)
        return _items(text)

    async def log(self, pod: Row, query: Mapping[str, str]) -> str:
        """What a pod's harness printed; `query` says which part."""
        path = f"/api/v1/namespaces/{self._space}/pods/{name_of(pod)}/log"
        text, _ = await self._ask("GET", path, {"container": container_of(pod), **query})
        return text

    async def delete(self, owner: Mapping[str, str] | None, selector: str, secret: str | None = None) -> None:
        """Delete the object that owns a launch's pods, and the pods with it before itself; then what is left of the pods, and the Secret.

        Returns at once.
        """
        if owner is not None:
            version = owner["apiVersion"]
            group = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            await self._deleted(f"{group}/namespaces/{self._space}/{owner['kind'].lower()}s/{owner['name']}")
        for pod in (await self.pods(selector, cached=False))[0]:
            if "deletionTimestamp" not in pod["metadata"]:
                await self._deleted(f"/api/v1/namespaces/{self._space}/pods/{name_of(pod)}")
        if secret is not None:
            await self._deleted(f"/api/v1/namespaces/{self._space}/secrets/{secret}")

    async def _deleted(self, path: str) -> None:
        try:
            await self._ask("DELETE", path, body=_FOREGROUND)
        except NotAnswered as problem:
            if problem.status != 404:  # it is gone: that was wanted
                raise

    async def _ask(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Row | None = None) -> tuple[str, float]:
        try:
            return await self._once(method, path, query or {}, body)
        except NotAnswered as problem:
            if problem.status != 401:
                raise
        await self._close()
        return await self._once(method, path, query or {}, body)

    async def _once(self, method: str, path: str, query: Mapping[str, str], body: Row | None) -> tuple[str, float]:
        client = self._client or await self._connect()
        try:
            # Not asyncio.wait_for: until Python 3.12 it loses a cancellation that comes in the moment of the answer, and the watch would go on.
            with anyio.fail_after(self._timeout_s):
                return await _exchange(client, method, path, list(query.items()), body)
        except (asyncio.TimeoutError, TimeoutError):
            raise NotAnswered(f"{method} {path}: no answer within {self._timeout_s:g} s") from None
        except (OSError, ClientError) as error:
            raise NotAnswered(f"{method} {path}: {type(error).__name__}: {error}") from error

    async def _connect(self) -> Any:
        hook_class = await asyncio.to_thread(_hook_class)
        try:
            with anyio.fail_after(self._timeout_s):
                self._client = await self._open.enter_async_context(hook_class(conn_id=self._connection).get_conn())
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the connection may be mended while the trial runs
            # Only the kind of error: a parser quotes the kubeconfig that it fails on.
            why = f'the Airflow connection "{self._connection}" gives no access to a cluster ({type(error).__name__}); expected type kubernetes with a kubeconfig'
            raise NotAnswered(why) from None
        return self._client

    async def _close(self) -> None:
        self._client = None
        await self._open.aclose()


def _hook_class() -> Any:
    # Takes seconds to import: in a thread, so that the other triggers on the loop go on.
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook

    return AsyncKubernetesHook


async def _exchange(client: Any, method: str, path: str, query: list[tuple[str, str]], body: Row | None) -> tuple[str, float]:
    """The body of a good answer, and the time on the cluster's clock when it was given."""
    response = await client.call_api(
        path,
        method,
        query_params=query,
        header_params={"Accept": "application/json, */*"},
        body=body,
        auth_settings=["BearerToken"],
        _preload_content=False,
    )
    async with response:
        text = (await response.read()).decode("utf-8", "replace")
    if not 200 <= response.status < 300:
        raise NotAnswered(f"{method} {path}: HTTP {response.status}: {_message(text)}", response.status, _seconds(response.headers))
    return text, _date(response.headers)


def _items(text: str) -> list[Row]:
    try:
        return [dict(item) for item in json.loads(text)["items"] or ()]
    except (ValueError, KeyError, TypeError) as error:
        raise NotAnswered(f"the answer is not a list of objects but {text[:80]!r}") from error


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200].strip() or "no message"


def _seconds(headers: Mapping[str, str]) -> float:
    """Retry-After; 0 if it is not there or is no number."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


def _date(headers: Mapping[str, str]) -> float:
    """The answer's Date; our own clock if the server does not tell its own."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError):
        return time.time()
