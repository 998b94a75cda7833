"""A page is one file: a toy dropped into the folder is served, answers as JSON, has its place in the navigation, and hides money."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.page_addresses import routes_of
from tests.data.result_documents import document
from tests.parsed import Parsed

from plumbline.archive import open_archive
from plumbline.dashboard import pages
from plumbline.dashboard.app import create_app

TOY = '''
"""How many campaigns the archive has."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from plumbline.dashboard.rendering import NavEntry, PageRoutes
from plumbline.dashboard.site import Site


def router(site: Site) -> PageRoutes:
    """`/campaign-count`."""
    routes = PageRoutes(NavEntry(15, "Count", "/campaign-count"), money=MONEY)

    @routes.page("/campaign-count")
    def show_count(request: Request) -> Response:
        count = len(list(site.reader.archive().campaigns()))
        return site.pages.page(request, "message.html.j2", {"campaigns": count}, title="Campaigns", text=f"{count} in the archive")

    return routes
'''


@pytest.fixture(params=[False, True], ids=["for all", "for money"])
def money(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    (tmp_path / "campaign_count.py").write_text(TOY.replace("money=MONEY", f"money={request.param}"))
    monkeypatch.setattr(pages, "__path__", [*pages.__path__, str(tmp_path)])
    yield request.param
    sys.modules.pop(f"{pages.__name__}.campaign_count", None)


def client(tmp_path: Path, *, sees_money: bool) -> TestClient:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(), uri="file:///store")
    return TestClient(create_app(archive_url=url, reports=tmp_path, may_see_money=lambda: sees_money))


def navigation(text: str) -> list[str]:
    return [link.text for link in Parsed(text).all("nav a")]


def test_it_is_served_and_found(tmp_path: Path, money: bool) -> None:
    with client(tmp_path, sees_money=True) as reader:
        page = reader.get("/campaign-count")
        assert page.status_code == 200 and "1 in the archive" in page.text
        assert reader.get("/campaign-count.json").json() == {"campaigns": 1}
        assert navigation(page.text)[:3] == ["Overview", "Count", "Providers"] and 'aria-current="page">Count' in page.text
        assert {"kind": "page", "name": "Count", "path": "/campaign-count"} in reader.get("/jump").json()
        assert "/campaign-count.json" in reader.get("/openapi.json").json()["paths"]


def test_a_page_of_money_is_for_those_who_may_see_it(tmp_path: Path, money: bool) -> None:
    with client(tmp_path, sees_money=False) as reader:
        assert {reader.get(f"/campaign-count{end}").status_code for end in ("", ".json")} == ({403} if money else {200})
        assert ("Count" in navigation(reader.get("/providers").text)) is not money
        assert any(place["name"] == "Count" for place in reader.get("/jump").json()) is not money


def test_every_file_of_the_folder_takes_the_site_alone() -> None:
    modules = [import_module(f"{pages.__name__}.{found.name}") for found in pkgutil.iter_modules(pages.__path__)]
    routers = [module.router for module in modules if hasattr(module, "router")]
    assert len(routers) == len(modules) > 12
    assert {tuple(inspect.signature(router).parameters) for router in routers} == {("site",)}
    assert len(routes_of(create_app())) > 20
