"""Requests to a cluster's API that do not block an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from plumbline.launch.cluster.api import ApiAnswer, ClusterApi
from plumbline.launch.cluster.names import Row
from plumbline.launch.cluster.observe.observation import CONTAINER, name_of
from plumbline.launch.failures import ApiRefused, NoConnection, RequestFailed, UndefinedConnection, Unreachable

T = TypeVar("T")
_THREADS = ThreadPoolExecutor(64, "cluster-api")
"""The threads of all watches: a cluster that does not answer holds one for a request's timeout, and must not hold those of other libraries."""


class LaunchApi:
    """The requests of a watch through `ClusterApi`, each in a thread and never repeated: the watch itself waits out an outage.

    Every method raises RequestFailed without a connection, without an answer within `request_timeout_s`, and for any HTTP status but 2xx.
    """

    def __init__(self, connection: str, namespace: str, request_timeout_s: float) -> None:
        self._connection = connection
        self._api = ClusterApi(connection, namespace, patience_s=0.0, timeout_s=request_timeout_s)

    async def pods(self, selector: str, *, cached: bool) -> tuple[list[Row], float]:
        """Pods of a label selector, and the cluster's clock. `cached`: from the API server's cache, which may be old but spares etcd."""
        query = {"labelSelector": selector, **({"resourceVersion": "0"} if cached else {})}
        answer = await self._ask(self._api.path("Pod"), query)
        return _items(answer), answer.date.timestamp() if answer.date else time.time()

    async def events(self, pod: str) -> list[Row]:
        query = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}", "limit": "200"}
        return _items(await self._ask(self._api.path("Event"), query))

    async def log(self, pod: Row, query: Mapping[str, str]) -> str:
        """A pod's log; `query` selects the part."""
        path = f"{self._api.path('Pod')}/{name_of(pod)}/log"
        return (await self._ask(path, {"container": CONTAINER, **query})).text

    async def deployment(self, name: str) -> Row:
        return (await self._ask(f"{self._api.path('Deployment')}/{name}", {})).row

    async def _ask(self, path: str, query: Mapping[str, str]) -> ApiAnswer:
        return await in_thread(partial(checked, self._connection, partial(self._api.send_once, "GET", path, query=query)))


def checked(connection: str, request: Callable[[], T]) -> T:
    """The request's result; each failure as RequestFailed."""
    try:
        return request()
    except RequestFailed:
        raise
    except ApiRefused as refusal:
        raise RequestFailed(str(refusal), refusal.status) from refusal
    except Unreachable as error:
        # A request that failed is its cause; without one, Airflow did not hand out the connection.
        raise error.__cause__ if isinstance(error.__cause__, RequestFailed) else RequestFailed(str(error)) from None
    except UndefinedConnection:
        raise NoConnection(f'the Airflow connection "{connection}" is not defined here') from None
    except Exception as error:  # noqa: BLE001 - the connection may be repaired while the trial runs
        # Only the type: a parser's message quotes the kubeconfig.
        why = f'the Airflow connection "{connection}" gives no access to a cluster ({type(error).__name__}); expected type kubernetes with a kubeconfig'
        raise RequestFailed(why) from None


async def in_thread(action: Callable[[], T]) -> T:
    """The action's result, from one of the threads of all watches."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(copy_context().run, action))


def _items(answer: ApiAnswer) -> list[Row]:
    items = answer.row.get("items", ())
    if "items" not in answer.row or not isinstance(items, list | type(None)):
        raise RequestFailed(f"the answer is not a list of objects but {answer.text[:80]!r}")
    return items or []
