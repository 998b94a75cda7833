"""An app that nobody asks is never built; one that many ask at once is built once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from plumbline.dashboard import LazyApp


def test_it_is_built_once_by_the_first_request() -> None:
    built = []

    def build() -> Any:
        app = FastAPI()
        app.get("/")(lambda: "here")
        built.append(app)
        return app

    outer = FastAPI()
    outer.mount("/x", LazyApp(build))
    assert built == []
    client = TestClient(outer)
    with ThreadPoolExecutor(4) as pool:
        assert {r.json() for r in pool.map(lambda _: client.get("/x/"), range(8))} == {"here"}
    assert len(built) == 1
