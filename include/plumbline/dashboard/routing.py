"""Routes that an app builds once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.params import Depends


class Routes(APIRouter):
    """Routes that are built when an app adds them: `include_router` would build each for a second time, and their forms and queries are
    most of an app's start."""

    def __init__(self, *, prefix: str = "", include_in_schema: bool = True) -> None:
        super().__init__(prefix=prefix, include_in_schema=include_in_schema)
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        self._declared.append((f"{self.prefix}{path}", endpoint, given))

    def add_to(self, app: FastAPI, dependencies: Sequence[Depends] = ()) -> None:
        """Behind the app's own dependencies, then `dependencies`, then each route's."""
        for path, endpoint, given in self._declared:
            whole = given | {
                "dependencies": [*dependencies, *(given.get("dependencies") or ())],
                "include_in_schema": self.include_in_schema and given.get("include_in_schema", True),
            }
            app.router.add_api_route(path, endpoint, **whole)
