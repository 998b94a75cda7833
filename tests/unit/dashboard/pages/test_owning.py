"""Owning and renting: the break-even as a chart, the same sums as the command, and what is not declared is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.fakes.labs import CHEAP, FAST, serve, spread, world, write
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home

WORKLOAD = "chat-test"
OWNED = """
owned: [{instances: 1, capital: 30000 USD, years: 4, residual: 0 USD, power_kw: 1, pue: 1.2, energy: 0.1 USD/kWh, since: 2025-01-01, source: "offer"}]
"""
ECONOMICS = """
assumptions: [{provider: "*", utilisation: {low: 30%, expected: 50%, high: 80%}, volume: {requests: 1000000}, growth: 5%/month, source: "made up"}]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder: Path = tmp_path_factory.mktemp("home")
    declared = world()
    file = write(declared, folder / "config") / "providers" / f"{FAST}.yaml"
    file.write_text(file.read_text() + OWNED)
    (folder / "config" / "economics.yaml").write_text(ECONOMICS)
    with override_home(folder, folder / "config"):
        with open_archive() as archive:
            serve(archive, declared, {FAST: spread(0.04), CHEAP: spread(0.05)})
        yield folder


def opened() -> tuple[Parsed, dict[str, Any]]:
    with TestClient(create_app()) as client:
        return Parsed(client.get("/owning").text), client.get("/owning.json").json()


def test_the_chart_has_the_break_even_and_the_command_the_same_sums(home: Path) -> None:
    page, data = opened()
    case = next(case for case in data["cases"] if case["provider"] == FAST)
    printed = CliRunner().invoke(app, ["cost", "break-even", FAST, WORKLOAD, "--json"])
    assert printed.exit_code == 0 and json.loads(printed.stdout)["ways"] == case["ways"]
    assert {"rent", "own"} == {option[0] for option in case["ways"]["options"]}
    (figure,) = page.charts.values()
    lines = {trace["name"]: trace for trace in figure["data"] if trace["mode"] == "lines"}
    marks = [trace for trace in figure["data"] if trace["mode"] != "lines"]
    assert set(lines) == {option[0] for option in case["ways"]["options"]}
    assert [mark["x"][0] for mark in marks] == pytest.approx([100 * low for _, low, _ in case["ways"]["spans"] if low > 0])
    assert page.one('tr[data-way="serverless"]').texts("td")[0] == "not known"
    assert "serverless: [{gpu_second" in page.one('tr[data-way="serverless"]').text
    assert f"plumbline cost break-even {FAST} {WORKLOAD}" in page.text and "is cheapest" in page.one("#answer").text


def test_what_economics_do_not_declare_is_not_known(home: Path) -> None:
    (home / "config" / "economics.yaml").unlink()
    page, data = opened()
    assert next(case for case in data["cases"] if case["provider"] == FAST)["ways"]["months"] == []
    assert "Twelve months" in page.text and page.texts('tr[data-way="own"] td')[1] == "not known"
    assert "all paid time counts as used" in page.text and "hosted: [{name" in page.one('tr[data-way="hosted"]').text


def test_readers_without_costs_and_empty_archives(home: Path, tmp_path: Path) -> None:
    with TestClient(create_app(may_see_money=lambda: False)) as client:
        assert {client.get(f"/owning{end}").status_code for end in ("", ".json")} == {403}
    with TestClient(create_app()) as client:
        assert client.get("/owning?provider=nowhere").status_code == 404
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url), TestClient(create_app(archive_url=url)) as empty:
        assert "No served workload has a usable trial" in Parsed(empty.get("/owning").text).one("#no-case").text
