"""The dashboard: a FastAPI app over the archive, read only. Imports nothing heavy, because every component of Airflow loads the plugin."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


class LazyApp:
    """Wraps `build`, which is called once, by the first request. Schedulers and workers that load the plugin never pay for it."""

    def __init__(self, build: Callable[[], App]) -> None:
        self._build = build
        self._built: App | None = None
        self._lock = threading.Lock()

    @property
    def app(self) -> App:
        """The app itself; builds it if need be."""
        with self._lock:
            if self._built is None:
                self._built = self._build()
            return self._built

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
        await self.app(scope, receive, send)
