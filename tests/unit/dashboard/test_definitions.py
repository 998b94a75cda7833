"""Each number of these pages has its line on them: every tile, and every heading of a column of numbers that is no name of a provider."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.fakes.labs import CHEAP, FAST, measure, spread, world, write
from tests.parsed import Parsed

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics import METRICS
from plumbline.words.definitions import definition, definitions

PAGES = ("/", "/spend", "/promises", "/workloads/gpt-test", "/prices", f"/prices/{FAST}")
TABLES = {
    "/": "#none",
    "/spend": ".sums, [aria-label='budgets']",
    "/workloads/gpt-test": "table.placed",
    f"/prices/{FAST}": "[aria-label='prices now']",
}
"""Where a page has columns of numbers that this is about; else in any table."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home: Path = tmp_path_factory.mktemp("home")
    declared = world()
    sla = ServiceLevel.model_validate({"launch_success": "99%", "credit": "10%"})
    declared.providers[FAST] = declared.providers[FAST].model_copy(update={"sla": sla})
    with override_home(home, write(declared, home / "config")):
        with open_archive() as archive:
            measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        with TestClient(create_app()) as opened:
            yield opened


@pytest.mark.parametrize("address", PAGES)
def test_every_tile_and_every_column_of_numbers_has_its_line(client: TestClient, address: str) -> None:
    page = Parsed(client.get(address).text)
    shown = page.texts("#tiles .kind") + page.texts("#answers dt")
    tables = TABLES.get(address, "table")
    for head in (h for table in page.all(tables) for h in table.all("th.num")):
        if not head.all("a"):
            shown.append(head.text)
    assert shown, "the page shows no number"
    lines = page.texts(".definitions li b")
    for one in page.all(".definitions"):
        assert len(one.texts("b")) == len(set(one.texts("b"))), "a line is there once"
    for text in shown:
        found = definitions([text])
        assert found and found[0][0] in lines, (address, text)


def test_the_promises_of_a_provider_have_a_line_for_each_column(client: TestClient) -> None:
    page = Parsed(client.get(f"/providers/{FAST}/promises").text)
    heads = page.texts("[aria-label='promises'] th[scope=col]")
    assert set(heads) - {"Promise", "Verdict"} == set(page.texts(".definitions li b"))


def test_the_scorecard_lists_each_of_its_metrics_with_the_catalogues_line(client: TestClient) -> None:
    page = Parsed(client.get("/workloads/gpt-test").text)
    listed = page.part("card").texts(".definitions li")
    known = {f"{name.replace('_', ' ')}": metric.description for name, metric in METRICS.items()}
    assert len(listed) > 3 and any(text.lower().startswith("step time") and known["step time"] in text for text in listed)


def test_a_reader_without_access_to_costs_reads_of_no_amount(client: TestClient) -> None:
    with TestClient(create_app(may_see_money=lambda: False)) as hidden:
        for address in ("/", "/promises"):
            names = " ".join(Parsed(hidden.get(address).text).texts(".definitions li b")).lower()
            assert not re.search(r"to claim|lost a month|saved|cost", names), address


def test_a_line_is_found_by_type_and_not_by_page() -> None:
    class Row:
        name, meaning = "our metric", "what we report"

    found = definitions(
        ["2026-11 paid", "Paid in 2026-10", "Paid in 2026-11 so far", "Forecast of 2026-12", "step time median", Row(), "unheard of"]
    )
    assert [name for name, _ in found] == ["Paid", "Forecast", "Step time", "Our metric"]
    assert dict(found)["Our metric"] == "what we report" and dict(found)["Step time"] == definition("step_time")
