"""Each page as JSON: at its own address with `.json`, and what its command prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.data.page_addresses import address_of, routes_of
from tests.fakes.labs import CHEAP, FAST, measure, serve, spread, world, write
from tests.unit.results.test_finding import NOTICED
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app as cli
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home
from plumbline.workflows.findings import finding_record

TEAM, WORKLOAD = "platform", "gpt-test"
COMMANDS: dict[str, tuple[str, ...]] = {
    "/overview.json": ("status",),
    "/findings.json": ("findings", "--all"),
    f"/findings/{NOTICED.finding_id}.json": ("findings", "show", NOTICED.finding_id),
    f"/providers/{FAST}/promises.json": ("promises", FAST),
    "/promises.json": ("promises",),
    f"/decisions/{TEAM}/training.json": ("decide", "--team", TEAM, "--kind", "training"),
    "/spend.json": ("cost", "month"),
}
"""A page's address and the command that shows the same."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home: Path = tmp_path_factory.mktemp("home")
    declared = world()
    config = write(declared, home / "config")
    file = config / "providers" / f"{FAST}.yaml"
    file.write_text(f"{file.read_text()}\nsla: {{launch_success: 99%}}\n")
    with override_home(home, config):
        with open_archive() as archive:
            measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
            serve(archive, declared, {FAST: spread(0.04), CHEAP: spread(0.05)})
            archive.save_findings([finding_record(NOTICED)])
        with TestClient(create_app(), follow_redirects=False) as opened:
            yield opened


def printed(*words: str) -> Any:
    result = CliRunner().invoke(cli, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(("address", "words"), COMMANDS.items(), ids=list(COMMANDS))
def test_a_command_prints_what_its_page_answers(client: TestClient, address: str, words: tuple[str, ...]) -> None:
    page, command = client.get(address).json(), printed(*words)
    if words == ("promises", FAST):
        (command,) = command
    if words[0] == "decide":
        (command,) = command["decisions"]
    assert page == command and page


def test_each_page_answers_as_json_under_its_own_address(client: TestClient) -> None:
    known = {
        "provider": FAST,
        "workload": WORKLOAD,
        "campaign_id": "2025-11",
        "finding_id": NOTICED.finding_id,
        "team": TEAM,
        "kind": "training",
    }
    with open_archive() as archive:
        known["trial_id"] = archive.trials()[0].trial_id
    routes = routes_of(client.app)  # type: ignore[arg-type]
    paths = {route.path for route in routes}
    pages = {path for path in paths if f"{path.removesuffix('/')}.json" in paths} | {"/"}
    assert len(pages) >= 15
    for route in routes:
        if route.path in pages:
            address = address_of(route, known)
            html, data = client.get(address), client.get("/overview.json" if address == "/" else f"{address}.json")
            assert (html.status_code, data.status_code) == (200, 200), address
            assert html.headers["content-type"].startswith("text/html") and data.headers["content-type"] == "application/json", address
            assert data.json(), address


def test_openapi_describes_every_page_as_json(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {"/overview.json", "/findings/{finding_id}.json", "/decisions/{team}/{kind}.json"} <= set(described["paths"])
    assert "/findings" not in described["paths"]
    assert {p["name"] for p in described["paths"]["/findings.json"]["get"]["parameters"]} >= {"state", "provider", "after"}


@pytest.mark.parametrize("address", ["/findings/nothing.json", "/workloads/nothing.json", "/campaigns/2099-01.json"])
def test_what_is_not_there_is_an_error_as_json_for_a_browser_too(client: TestClient, address: str) -> None:
    found = client.get(address, headers={"Accept": "text/html"})
    assert found.status_code == 404 and found.json()["detail"]


def test_without_an_archive_json_is_an_error(tmp_path: Path) -> None:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'none.db'}", reports=tmp_path)) as empty:
        assert (empty.get("/").status_code, empty.get("/overview.json").status_code) == (200, 503)
