"""The page of compared invoices: what differs most first, three states, the finding of each difference, and nothing for readers without costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.fakes.labs import write
from tests.parsed import Parsed
from tests.unit.workflows.test_compare_invoice import PLACE, STORAGE, Row, held, places, usage, written
from typer.testing import CliRunner

from plumbline.archive import Archive, open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.dashboard.sources import ArchiveReader
from plumbline.declarations.installation import override_home
from plumbline.workflows.compare_invoice import Selection, compare_invoice, record_invoice

TAX = {"ChargeCategory": "Tax", "SkuId": "", "ResourceId": "", "PricingQuantity": "", "PricingUnit": "", "EffectiveCost": "0"}
BILLS: dict[str, list[Row]] = {
    "agrees.csv": [usage(day) for day in range(3)],
    "small.csv": [usage(0), usage(1, EffectiveCost="98.00"), usage(2)],
    "half.csv": [*(usage(day) for day in range(3)), usage(2, **STORAGE)],
    "large.csv": [*(usage(day) for day in range(3)), usage(0), usage(1, BilledCost="100.00", **TAX), usage(1, BilledCost="-7.00", **TAX)],
}
ORDER = ["large.csv", "small.csv", "half.csv", "agrees.csv"]


def compared(archive: Archive, folder: Path, names: list[str]) -> None:
    for name in names:
        found = compare_invoice(archive, places(), written(folder, BILLS[name]), (), 0.25)
        record_invoice(archive, places(), name, found, by="ann")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder: Path = tmp_path_factory.mktemp("home")
    with override_home(folder, write(replace(places(), teams={}, workloads={}), folder / "config")):
        with open_archive() as archive:
            for day in range(3):
                held(archive, day)
            compared(archive, folder, list(BILLS))
        yield folder


def test_what_differs_most_is_first_and_page_and_command_say_the_same(home: Path) -> None:
    printed = CliRunner().invoke(app, ["cost", "invoices", "--json"])
    with TestClient(create_app()) as client:
        page, data = Parsed(client.get("/invoices").text), client.get("/invoices.json").json()
    assert printed.exit_code == 0 and json.loads(printed.stdout) == data
    assert [view["file"] for view in data["invoices"]] == ORDER
    assert page.texts("tr[data-invoice] .chip") == ["differs", "differs", "not shown", "agrees"]
    assert page.one("#summary").text == "2 of 4 invoices differ, 191.00 USD more than expected; 1 not shown to agree; 1 agrees."
    large = data["invoices"][0]
    assert [(line["kind"], line["more"]) for line in large["differences"]] == [("tax", "93.00"), ("duplicate", "90.00")]
    assert large["sums"] == [{"currency": "USD", "compared": "360.00", "uncompared": "93.00", "over": "183.00", "under": "0"}]
    assert (large["period"], large["compared_by"], large["providers"]) == ("2026-11-02 … 2026-11-04", "ann", [PLACE.name])
    links = page.values('tr[data-difference="duplicate"] a', "href")
    assert links == [f"/findings/{large['differences'][1]['finding_id']}"] and large["differences"][1]["state"] == "open"
    assert "Storage: 3.10 USD in 1 line" in page.text and "plumbline cost reconcile large.csv --record" in page.text
    spoken = " ".join(CliRunner().invoke(app, ["cost", "invoices"]).stdout.split())
    assert "duplicate, " in spoken and "90.00 USD more than expected" in spoken


def test_a_reader_without_costs_sees_no_invoice(home: Path) -> None:
    with TestClient(create_app(may_see_money=lambda: False)) as client:
        assert {client.get(f"/invoices{end}").status_code for end in ("", ".json")} == {403}
        assert all(place["path"] != "/invoices" for place in client.get("/jump").json())
    with open_archive() as archive:
        reader = ArchiveReader(str(archive.engine.url))
        assert archive.compared_invoices() and not reader.archive(money=False).compared_invoices()
        assert not [entry for entry in reader.archive(money=False).audit() if entry.what == "invoice_compared"]


def test_the_same_result_is_kept_once_and_another_one_replaces_it(archive: Archive, tmp_path: Path) -> None:
    compared(archive, tmp_path, ["small.csv", "small.csv"])
    (first,) = archive.compared_invoices()
    assert len(archive.audit(first.invoice.sha256)) == 1
    for day in range(3):
        held(archive, day)
    compared(archive, tmp_path, ["small.csv"])
    (now,) = archive.compared_invoices()
    assert [each.kind for each in now.invoice.differences] == ["price"] and len(archive.audit(first.invoice.sha256)) == 2


def test_what_was_not_selected_stands_beside_what_agrees(archive: Archive, tmp_path: Path) -> None:
    for day in range(3):
        held(archive, day)
    path = written(tmp_path, [*BILLS["agrees.csv"], usage(9, ResourceId="i-prod")])
    found = compare_invoice(archive, places(), path, (), 0.25, Selection.of(None, (), "i-00*"))
    record_invoice(archive, places(), "shared.csv", found, by="ann")
    with TestClient(create_app(archive_url=str(archive.engine.url))) as client:
        page, (view,) = client.get("/invoices").text, client.get("/invoices.json").json()["invoices"]
    assert view["selected"] == "only lines of --resource 'i-00*'; not selected: 90.00 USD in 1 line"
    assert view["command"] == "plumbline cost reconcile shared.csv --resource 'i-00*' --record"
    assert "not selected: 90.00 USD in 1 line" in Parsed(page).text and view["judgement"]["verdict"] == "met"


def test_an_archive_without_a_comparison_says_how_to_make_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url), TestClient(create_app(archive_url=url)) as empty:
        page = Parsed(empty.get("/invoices").text)
        assert "plumbline cost reconcile INVOICE.csv --record" in page.one("#no-invoice").text
        assert empty.get("/invoices.json").json()["invoices"] == []
