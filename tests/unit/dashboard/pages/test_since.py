"""The page of what happened, its JSON, its feed and its command; and what a reader without access to costs sees of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write
from tests.parsed import Parsed
from tests.unit.results.test_finding import NOTICED
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app as cli
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home
from plumbline.results.stored import DecisionRecord
from plumbline.workflows.findings import finding_record


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finding that a person took, an accepted price, and a first choice that moved."""
    folder: Path = tmp_path_factory.mktemp("home")
    with override_home(folder, write(world(), folder / "config")):
        with open_archive() as archive:
            measure(archive, world(), {FAST: spread(0.09), CHEAP: spread(0.1)})
            archive.save_findings([finding_record(NOTICED)])
            archive.set_finding_state(NOTICED.finding_id, "acknowledged", by="ada", why="30 USD a month is too much")
            archive.accept_price(FAST, "on_demand", None, 3.0, date(2025, 2, 1), "a test", by="bo", why="they wrote")
            moved = {"workloads": ["gpt-test"], "instead_of": FAST, "why": "a price rose"}
            archive.save_decision(DecisionRecord("d1", "platform", "training", CHEAP, 0.9, moved))
        yield folder


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with TestClient(create_app(), follow_redirects=False) as opened:
        yield opened


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["status", "--since", *words])


def test_page_json_and_command_have_the_same_events(client: TestClient) -> None:
    data = client.get("/since.json?since=1h").json()
    page = Parsed(client.get("/since?since=1h").text)
    printed = json.loads(run("1h", "--json").stdout)
    assert [event["event_id"] for event in data["events"]] == [event["event_id"] for event in printed["events"]]
    assert page.values("ol.events li", "data-event") == [event["event_id"] for event in data["events"]]
    assert {event["kind"] for event in data["events"]} == {"finding", "action", "price", "decision"}
    shown = " ".join(run("1h").stdout.split())
    for event in data["events"]:
        assert event["text"] in page.text and event["text"] in shown
    assert "by ada: 30 USD a month is too much" in page.text and "by ada: 30 USD" in shown
    assert page.one("#summary").text.startswith("1 finding opened, 1 price accepted, 1 decision")
    assert ("page", "/since") in {(place["kind"], place["path"]) for place in client.get("/jump").json()}


def test_a_reader_without_access_to_costs_sees_no_price_decision_or_amount(home: Path) -> None:
    with TestClient(create_app(may_see_money=lambda: False)) as hidden:
        texts = [hidden.get(path).text for path in ("/since?since=1h", "/since.json?since=1h", "/since.atom")]
        data = hidden.get("/since.json?since=1h").json()
    assert {event["kind"] for event in data["events"]} == {"finding", "action"} and all(e["usd"] is None for e in data["events"])
    assert len(data["looked"]) == 5, "neither prices nor decisions were looked at for this reader"
    for text in texts:
        assert "ada" in text and not any(word in text for word in ("USD", "they wrote", "First choice", "price of"))


def test_of_one_provider_and_of_none_that_exists(client: TestClient) -> None:
    data = client.get(f"/since.json?since=1h&provider={CHEAP}").json()
    assert [event["kind"] for event in data["events"]] == ["decision"]
    assert client.get("/since?provider=nothing").status_code == 404
    refused = run("1h", "--provider", "lab")
    assert refused.exit_code == 2 and FAST in refused.stderr
    assert CliRunner().invoke(cli, ["status", "--provider", FAST]).exit_code == 2


def test_nothing_happened_is_not_nothing_watched(client: TestClient) -> None:
    ends = time.monotonic() + 30
    while client.get(f"/since.json?since=1s&provider={FAST}").json()["events"] and time.monotonic() < ends:
        time.sleep(0.1)  # what the fixture did is younger than a second
    page = Parsed(client.get(f"/since?since=1s&provider={FAST}").text)
    assert page.one("#nothing").text == f"Nothing happened on {FAST} in what was watched."
    looked = page.one("#looked").text
    assert "Campaigns: last" in looked and "no provider declares" in looked and "none was measured" in looked
    printed = run("1s", "--provider", FAST).stdout
    assert "nothing happened in what was watched" in printed and "What was watched" in printed


@pytest.mark.parametrize("since", ["soon", "2099-01-01"])
def test_a_time_that_is_none_is_refused_beside_its_field(client: TestClient, since: str) -> None:
    assert client.get(f"/since?since={since}").status_code == client.get(f"/since.atom?since={since}").status_code == 422
    assert client.get(f"/since.json?since={since}").json()["detail"].startswith("since: since is")
    assert run(since).exit_code == 2


def test_the_feed_is_atom_and_the_page_names_it(client: TestClient) -> None:
    feed = client.get("/since.atom")
    assert feed.headers["content-type"].startswith("application/atom+xml") and feed.text.count("<entry>") == 4
    assert f'<link rel="alternate" href="http://testserver/findings/{NOTICED.finding_id}" />' in feed.text
    (address,) = Parsed(client.get("/since").text).values('link[type="application/atom+xml"]', "href")
    assert address.endswith("/since.atom")
