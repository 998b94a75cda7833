"""Style sheets and scripts: kept by who has them, and nothing else below the address."""

from __future__ import annotations

import hashlib

import pytest
from fastapi.testclient import TestClient

from plumbline.dashboard.app import create_app
from plumbline.dashboard.assets import Assets
from plumbline.declarations.installation import REPOSITORY

PLOTLY = "plotly.min.js"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    folder = tmp_path_factory.mktemp("home")
    return TestClient(create_app(archive_url=f"sqlite:///{folder / 'archive.db'}", reports=folder))


def test_plotly_is_the_one_of_the_locked_wheel(client: TestClient) -> None:
    assert REPOSITORY is not None
    found = client.get(f"/static/{PLOTLY}")
    assert hashlib.sha256(found.content).hexdigest() == (REPOSITORY / "requirements" / "plotly.sha256").read_text().strip()
    assert found.headers["content-type"].startswith("text/javascript")
    assert client.get("/static/report.css").headers["content-type"].startswith("text/css")


def test_an_address_with_its_version_may_be_kept_and_one_without_may_not(client: TestClient) -> None:
    named = Assets().versioned("charts.js")
    assert "immutable" in client.get(f"/static/{named}").headers["cache-control"]
    for path in ("/static/charts.js", "/static/charts.js?v=0"):
        assert client.get(path).headers["cache-control"] == "private, max-age=300"


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fapp.py", "widgetbundle.js"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_people_get_a_page_of_what_is_not_there_and_programs_a_word(client: TestClient) -> None:
    for_people = client.get("/reports/2099-01", headers={"accept": "text/html"})
    assert for_people.status_code == 404 and "<h1>Not found</h1>" in for_people.text
    for_programs = client.get("/reports/2099-01", headers={"accept": "application/json"})
    assert for_programs.status_code == 404 and "2099-01" in for_programs.json()["detail"]
