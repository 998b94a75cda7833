"""With results of many providers a page answers before its slow parts, which other addresses of it hold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.large_fleet import WORKLOAD, large_fleet
from tests.data.result_documents import document, provider, training_workload, trial
from tests.parsed import Parsed

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.rendering import IMMEDIATE_PROVIDERS
from plumbline.declarations.installation import override_home

ONE = "/decisions/lab/training"
PAGES = ("/", "/decisions", ONE)
FLEET_PARTS = {"/providers/lab-00": ("lane", "fleet-year"), "/changes": ("changes",), f"/workloads/{WORKLOAD}": ("beside",)}
"""Pages of which only these parts follow."""


@pytest.fixture(scope="module")
def stored_fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return large_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def small_fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return large_fleet(tmp_path_factory.mktemp("small"), IMMEDIATE_PROVIDERS)


@pytest.fixture
def fleet(stored_fleet: tuple[Path, Path], tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A copy, which a test may change."""
    home, config = shutil.copytree(stored_fleet[0], tmp_path / "home"), stored_fleet[1]
    with override_home(home, config):
        yield home, config


@pytest.fixture
def client(fleet: tuple[Path, Path]) -> TestClient:
    """An app that has computed nothing yet."""
    return TestClient(create_app())


def later(text: str) -> set[str]:
    return set(Parsed(text).values("[data-later]", "data-later"))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_answers_without_its_slow_parts_until_they_are_cached(client: TestClient, fleet: tuple[Path, Path], path: str) -> None:
    first = client.get(path).text
    assert later(first) and "lab-00" not in first, "the current results are not read"
    ids = Parsed(first).values("[data-later]", "id")
    whole = client.get(f"{path}?parts=all").text
    assert not later(whole) and "lab-00" in whole
    assert ids and all(f'id="{part}"' in whole for part in ids), "each part has its place in the whole page"
    again = client.get(path).text
    assert not later(again) and "lab-00" in again, "what is cached is shown at once"
    with open_archive(f"sqlite:///{fleet[0] / 'archive.db'}") as archive:
        spec = trial(where=provider("lab-00"), repeat=3, workload=training_workload(name=WORKLOAD))
        archive.record(document(spec), uri="file:///store")
    assert later(client.get(path).text), "a new trial changes the results"


@pytest.mark.parametrize(("path", "parts"), FLEET_PARTS.items())
def test_named_parts_follow_until_they_are_cached(client: TestClient, path: str, parts: tuple[str, ...]) -> None:
    first = client.get(path).text
    assert later(first) == {f"{path}?parts=all"} and set(parts) <= set(Parsed(first).values("[data-later]", "id"))
    whole = client.get(f"{path}?parts=all").text
    assert not later(whole) and all(f'id="{part}"' in whole for part in parts if part != "lane")
    assert not later(client.get(path).text), "what is cached is shown at once"


def test_each_part_is_linked_for_who_has_no_script(client: TestClient) -> None:
    for path in (*PAGES, *FLEET_PARTS):
        text = client.get(path).text
        links = {href.partition("#")[0] for href in Parsed(text).values("a", "href")}
        assert later(text) <= links


def test_a_ranking_does_not_wait_for_the_next_experiments(client: TestClient) -> None:
    ranked = client.get(f"{ONE}?parts=main").text
    assert 'data-provider="lab-00"' in ranked and later(ranked) == {f"{ONE}?parts=all"}
    assert "next-experiments" in Parsed(ranked).values("[data-later]", "id")
    assert not later(client.get(f"{ONE}?parts=all").text)


def test_stored_decisions_are_named_until_the_current_ones_are_ranked(client: TestClient) -> None:
    assert all("lab-07" in client.get(path).text for path in ("/decisions", ONE, "/"))
    assert 'data-label="First"><b>lab-07</b>' in client.get("/decisions").text
    assert 'data-label="First"><b>lab-07</b>' not in client.get("/decisions?parts=all").text.partition("History")[0]


def test_weights_from_sliders_are_ranked_at_once(client: TestClient) -> None:
    text = client.get(f"{ONE}?w.step_time=100&w.tokens_per_second=0").text
    assert 'data-provider="lab-00"' in text and 'id="custom-weights"' in text


REFUSED = {
    "/decisions/absent/training": 404,
    "/decisions/lab/inference": 404,
    f"{ONE}?workload=x": 404,
    f"{ONE}?weights=x": 422,
}


def test_what_cannot_be_decided_is_refused_before_the_parts(client: TestClient) -> None:
    for path, status in REFUSED.items():
        assert client.get(path).status_code == status, path


@pytest.mark.parametrize("path", [*PAGES, "/providers/lab-00"])
def test_a_small_fleet_is_shown_whole(small_fleet: tuple[Path, Path], path: str) -> None:
    with override_home(*small_fleet):
        text = TestClient(create_app()).get(path).text
    assert not later(text) and "lab-00" in text
