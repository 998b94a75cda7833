"""The pages and the JSON of decisions: what is asked for, what is answered, and what cannot be."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from tests.browser.sample import campaign, record
from tests.parsed import Parsed

from plumbline.archive import DecisionRecord, open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.decision_query import slider_weights
from plumbline.declarations import load, parse_weights
from plumbline.declarations.installation import installation_paths, override_home

PAGE = "/decisions/product/inference?workload=chat-tiny-cpu"
API = "/decisions/product/inference.json"
REASON = "a price was accepted"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    data = campaign(folder / "results")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, data)
        detail = {
            "workloads": ["chat-tiny-cpu"],
            "why": REASON,
            "instead_of": "local-1core",
            "campaigns": {"a": ["2026-11"]},
        }
        archive.save_decision(DecisionRecord("d1", "product", "inference", "local-2core", 0.97, detail))
        archive.save_decision(DecisionRecord("d0", "product", "inference", None, None, {}))
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home)) as opened:
        yield opened


def ranked(text: str) -> list[str]:
    return Parsed(text).values("tr[data-provider]", "data-provider")


def test_all_decisions_and_their_history_stand_on_one_page(client: TestClient) -> None:
    text = client.get("/decisions").text
    assert 'href="/decisions/product/inference?workload=chat-tiny-cpu"' in text
    assert text.count('<span class="quiet">') > 0 and 'data-label="First"><b>local-2core</b>' in text
    assert "instead of local-1core" in text and REASON in text and "97 %" in text
    assert ">no eligible provider<" in text, "a decision that says little of itself is shown too"
    assert client.get("/decisions?after=nothing").status_code == 404


def test_a_decision_says_who_why_and_what_would_change_it(client: TestClient) -> None:
    text = client.get(PAGE).text
    assert ranked(text) == ["local-2core", "local-1core"]
    assert any(re.match(r"local-2core, (> )?\d+ % sure", bold) for bold in Parsed(text).texts("b"))
    assert {f'data-for="{name}"' in text for name in ("probability-of-being-first", "weight-swings", "price-swings")} == {True}
    assert all(escape(criterion.text) in text for criterion in load().workloads["chat-tiny-cpu"].acceptance)
    assert 'href="#trials.local-2core.chat-tiny-cpu"' in text and 'id="trials.local-2core.chat-tiny-cpu"' in text
    assert 'href="/trials/2026-11.local-2core.inference.chat-tiny-cpu.0200.r1?attempt=1"' in text
    assert 'id="custom-weights"' not in text
    assert "standardised" in Parsed(text).one(".note.comparison").text
    assert 'id="cheapest"' in text


def test_a_declared_value_is_not_said_to_be_a_share_of_the_best(home: Path, client: TestClient, tmp_path: Path) -> None:
    share, value = re.compile(r"\d+ % of"), re.compile(r"value \d+ %")

    def said(page: str) -> list[bool]:
        return [any(map(words.match, Parsed(page).texts("small"))) for words in (share, value)]

    assert said(client.get(PAGE).text) == [True, False]
    config = Path(shutil.copytree(installation_paths().config, tmp_path / "config"))
    product = config / "teams" / "product.yaml"
    told = yaml.safe_load(product.read_text())
    told["inference"]["values"] = {name: {"worst": "3x best", "best": "1x best"} for name in told["inference"]["weights"]}
    product.write_text(yaml.safe_dump(told))
    with override_home(home, config), TestClient(create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home)) as other:
        text = other.get(PAGE).text
    assert said(text) == [False, True]


def test_what_would_change_the_first_says_how_far_it_was_looked(client: TestClient) -> None:
    text = client.get(PAGE).text
    table = Parsed(text).part("prices-sensitivity").text
    assert "never" not in text and re.search(r"(down|up) to 10+ %", table)
    assert all(name in table for name in ("local-1core", "local-2core")) and table.count("USD/h") >= 2


def test_the_old_address_of_a_negotiation_leads_to_what_would_change_the_first(client: TestClient) -> None:
    old = "/decisions/product/inference/negotiate?workload=chat-tiny-cpu&provider=local-1core&price=0.02"
    moved = client.get(old, follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (308, f"{PAGE}#sensitivity")
    page = Parsed(client.get(old).text)
    assert page.part("sensitivity").text and "#sensitivity" in page.values("a", "href")
    assert client.get("/decisions/nobody/inference/negotiate").status_code == 404


def test_sliders_move_the_weights(client: TestClient) -> None:
    text = client.get(f"{PAGE}&w.time_to_first_token=0&w.time_per_output_token=0&w.cost_per_good_request=40").text
    assert ranked(text) == ["local-1core", "local-2core"] and 'id="custom-weights"' in text
    assert Parsed(text).one("[name='w.cost_per_good_request']").tag["value"] == "100", "in proportion to each other"
    assert "declared 50 %" in text, "what is declared stays to be seen"


def test_a_team_with_several_choices_shows_its_main_one(client: TestClient) -> None:
    found = client.get("/decisions/product/inference?weights=time_to_first_token=0.6", follow_redirects=False)
    assert found.headers["location"].endswith("?weights=time_to_first_token%3D0.6&workload=chat-tiny-cpu")
    assert 'aria-current="page">chat-tiny-cpu' in client.get("/decisions/product/inference").text


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/decisions/nobody/inference", 404, "no team is called"),
        ("/decisions/product/training", 404, "product"),
        (f"{PAGE}x", 404, "chat-tiny-cpux"),
        (f"{PAGE}&weights=goodness=1", 422, "is not weighed here"),
        (f"{PAGE}&weights=nothing", 422, "is no weight"),
        (f"{PAGE}&w.time_to_first_token=-1", 422, "out of range"),
        (f"{PAGE}&w.time_to_first_token=0&w.time_per_output_token=0&w.cost_per_good_request=0", 422, "every weight is 0"),
        ("/decisions/product/neither", 422, ""),
    ],
)
def test_what_cannot_be_decided_says_why(client: TestClient, path: str, status: int, says: str) -> None:
    found = client.get(path)
    assert (found.status_code, says in found.text) == (status, True), found.text


def test_the_page_as_json_has_everything_that_it_shows(client: TestClient) -> None:
    found = client.get(API, params={"workload": "chat-tiny-cpu"}).json()
    assert (found["team"], found["kind"], found["workloads"], found["simulated"]) == ("product", "inference", ["chat-tiny-cpu"], False)
    assert [r["provider"] for r in found["ranking"]] == ["local-2core", "local-1core"]
    weights = found["preference"]["weights"]
    assert len(found["columns"]) == len(weights)
    assert found["ranking"][0]["trials"] == [f"2026-11.local-2core.inference.chat-tiny-cpu.0200.r{n}" for n in (1, 2)]
    assert found["campaigns"]["local-1core"] == ["2026-11"]
    assert found["prices"]["local-1core"]["usd_per_hour"] == 0.02
    assert {s["metric"] for s in found["weight_swings"]} == set(weights) and len(found["price_swings"]) == 2
    assert found["cheapest"][0]["setups"][0]["provider"] == "local-1core"
    moved = client.get(API, params={"workload": "chat-tiny-cpu", "weights": "cost_per_good_request=1"}).json()
    assert moved["ranking"][0]["provider"] == "local-1core"
    several = client.get(API).json()
    assert several == found, "a team's main choice"


def test_json_says_what_it_cannot_answer(client: TestClient) -> None:
    wrong = client.get(API, params={"workload": "chat-tiny-cpu", "weights": "goodness=1"})
    assert wrong.status_code == 422 and "is not weighed here" in wrong.json()["detail"]
    assert client.get("/decisions/nobody/inference.json", headers={"Accept": "text/html"}).json()["detail"]


def test_weights_are_read_strictly() -> None:
    assert parse_weights(" a=0.5 , b=1") == {"a": 0.5, "b": 1.0} and parse_weights("") == {}
    assert slider_weights({"w.a": "30", "w.b": "10", "workload": "x"}) == {"a": 0.75, "b": 0.25} and slider_weights({"workload": "x"}) == {}
    for text in ("a", "a=b", "a=0.5;b"):
        with pytest.raises(ValueError, match="is no weight"):
            parse_weights(text)
    for values in ({"w.a": "x"}, {"w.a": "101"}, {"w.a": "nan"}, {"w.a": "0"}):
        with pytest.raises(ValueError, match="expected"):
            slider_weights(values)
