"""The page of places: one offer in its regions side by side, no best place without numbers, and no price for readers without costs."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi.testclient import TestClient
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations import Declarations
from plumbline.declarations.installation import override_home


def two_regions() -> Declarations:
    """The labs as one offer in two regions, and a third region where nothing was measured."""
    declared = world()
    east = declared.providers[FAST]
    for name, region in ((FAST, "east"), (CHEAP, "west"), ("new-lab", "north")):
        own = declared.providers.get(name, east).model_copy(update={"name": name, "region": region})
        declared.providers[name] = own.model_copy(update={"cloud": east.cloud, "instance_type": east.instance_type})
    return declared


def test_an_offer_is_a_row_and_its_places_are_columns(tmp_path: Path) -> None:
    declared = two_regions()
    with override_home(tmp_path, write(declared, tmp_path / "config")):
        with open_archive() as archive:
            measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        with TestClient(create_app()) as client:
            page, data = Parsed(client.get("/places").text), client.get("/places.json").json()
            assert client.get("/places?workload=nothing").status_code == 404
        with TestClient(create_app(may_see_money=lambda: False)) as poor:
            said = CliRunner().invoke(app, ["places", "--json"])
            shown = " ".join(CliRunner().invoke(app, ["places", "gpt-test"], env={"COLUMNS": "200"}).stdout.split())
            unknown = CliRunner().invoke(app, ["places", "nothing"])
            hidden, hidden_data = poor.get("/places").text, poor.get("/places.json").json()
    view = data["places"]
    assert (data["workloads"], view["places"]) == (["gpt-test"], ["east", "north", "west"])
    (row,) = view["offers"]
    (east,), (north,), (west,) = row["cells"]
    assert (east["provider"], west["provider"]) == (FAST, CHEAP)
    assert (east["distance"], west["distance"]) == ("best place", "11.1 % from the best")
    assert (north["number"], north["text"], north["distance"]) == (None, "not measured", "")
    assert (east["usd_per_hour"], west["usd_per_hour"]) == (2.0, 1.0) and "2.00 USD/h" in page.text
    assert page.texts("tr[data-offer] td .value")[1] == "not measured"
    assert json.loads(said.stdout) == data and "not measured" in shown and "11.1 % from the best" in shown and "2.00 USD/h" in shown
    assert unknown.exit_code == 2 and 'no workload in the archive is called "nothing"' in unknown.stderr
    assert "USD" not in hidden and all(cell[0]["usd_per_hour"] is None for cell in hidden_data["places"]["offers"][0]["cells"])


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    declared = world()
    with override_home(tmp_path, write(declared, tmp_path / "config")), TestClient(create_app()) as client:
        with open_archive() as archive:
            assert "No workload was measured yet" in Parsed(client.get("/places").text).one("#no-result").text
            measure(archive, declared, {FAST: spread(0.090)})
        page = Parsed(client.get("/places").text)
        assert "No offer is declared in two places" in page.one("#one-place").text and page.all("#one-client")
