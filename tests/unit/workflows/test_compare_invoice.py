"""An invoice against the archive: what agrees, planted differences each found once, files that cannot be read, and memory."""

from __future__ import annotations

import csv
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from tests.data.result_documents import document, provider, trial
from tests.fakes.trials import CONFIG

from plumbline.archive import Archive
from plumbline.declarations import Declarations, load
from plumbline.judgement import met
from plumbline.price_sources.csv_history import HistoryError
from plumbline.results import Event
from plumbline.workflows.compare_invoice import COLUMNS, InvoiceResult, compare_invoice, record_invoice

PLACE = provider(prices=[{"purchase": "on_demand", "price": "90 USD/h", "since": "2026-01-01", "source": "contract 7"}])
FIRST = datetime(2026, 11, 2, 2, tzinfo=timezone.utc)
Row = dict[str, str]


def places() -> Declarations:
    return replace(load(CONFIG), providers={PLACE.name: PLACE})


def held(archive: Archive, day: int, hours: float = 1.0) -> None:
    """A trial that held the provider from 02:00 of the day on."""
    began = FIRST + timedelta(days=day)
    moments = (("harness_started", 0.0), ("harness_finished", hours * 3600))
    timeline = tuple(Event(name=name, utc=began + timedelta(seconds=s), monotonic_s=s) for name, s in moments)
    wanted = trial(where=PLACE.of_trial(), planned_at=began, campaign="2026-11", repeat=day + 1)
    archive.record(document(wanted, timeline=timeline), uri="file:///nowhere")


def usage(day: int, **other: str) -> Row:
    """An hour of the instance at the accepted price."""
    start = FIRST + timedelta(days=day)
    row = {
        "BilledCost": "90.00",
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargePeriodStart": f"{start:%Y-%m-%dT%H:00:00Z}",
        "ChargePeriodEnd": f"{start + timedelta(hours=1):%Y-%m-%dT%H:00:00Z}",
        "EffectiveCost": "90.00",
        "PricingQuantity": "1",
        "PricingUnit": "Hours",
        "RegionId": PLACE.region,
        "ResourceId": f"i-{day:04d}",
        "ServiceName": "Compute",
        "SkuId": f"BoxUsage:{PLACE.instance_type}",
    }
    return row | other


def written(folder: Path, rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> Path:
    path = folder / "invoice.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


def reconciled(archive: Archive, folder: Path, rows: Sequence[Row]) -> InvoiceResult:
    return compare_invoice(archive, places(), written(folder, rows), (), 0.25)


def kinds(found: InvoiceResult) -> list[tuple[str, Decimal]]:
    return sorted((each.kind, each.cost.quantize(Decimal("0.01"))) for each in found.differences)


@pytest.fixture
def used(archive: Archive) -> Archive:
    for day in range(6):
        held(archive, day)
    return archive


STORAGE = {"SkuId": "TimedStorage", "PricingUnit": "GB-Months", "ServiceName": "Storage", "RegionId": "elsewhere", "EffectiveCost": "3.10"}


def test_an_invoice_that_agrees(used: Archive, tmp_path: Path) -> None:
    found = reconciled(used, tmp_path, [*(usage(day) for day in range(6)), usage(3, **STORAGE)])
    assert (found.lines, found.matched, found.differences) == (7, 6, ())
    assert found.judgement.verdict == "not_shown" and "not compared: Storage 3.10 USD" in found.judgement.text
    assert reconciled(used, tmp_path, [usage(day) for day in range(6)]).judgement == met("6 of 6 lines compared, which agree")
    free = reconciled(used, tmp_path, [*(usage(day) for day in range(6)), usage(3, **STORAGE | {"EffectiveCost": "0.00"})])
    assert free.judgement.verdict == "met" and "not compared, without cost: Storage" in free.judgement.text


def test_nothing_compared_is_no_agreement(used: Archive, tmp_path: Path) -> None:
    other = {"SkuId": "X9", "SkuMeter": "Some GPU", "ServiceName": "Machines"}
    rows = [usage(day, **other) for day in range(6)]
    found = compare_invoice(used, places(), written(tmp_path, rows, (*COLUMNS, "SkuMeter")), (), 0.25)
    assert (found.judgement.verdict, found.judgement.seen) == ("not_shown", "0 of 6 lines compared")
    assert "Some GPU 540.00 USD" in found.judgement.missing
    assert [(each.kind, each.provider) for each in found.differences] == [("trials_not_billed", PLACE.name)]
    assert reconciled(used, tmp_path, []).judgement.verdict == "not_shown"


def test_five_planted_differences_are_five_findings(used: Archive, tmp_path: Path) -> None:
    """Six days of one hour each at 90 USD. Planted: 98 USD on day 1 (8.00 more); day 2 again (90.00 more); day 3 missing; 2 hours of a day
    without a trial (180.00 more); 100 USD of tax."""
    extra = usage(9, PricingQuantity="2", EffectiveCost="180.00", BilledCost="180.00")
    tax = usage(
        0, ChargeCategory="Tax", SkuId="", ResourceId="", PricingQuantity="", PricingUnit="", BilledCost="100.00", EffectiveCost="0"
    )
    rows = [usage(0), usage(1, EffectiveCost="98.00"), usage(2), usage(2), usage(4), usage(5), extra, tax]
    found = reconciled(used, tmp_path, rows)
    assert kinds(found) == [
        ("duplicate", Decimal("90.00")),
        ("hours_without_trial", Decimal("180.00")),
        ("price", Decimal("8.00")),
        ("tax", Decimal("100.00")),
        ("trials_not_billed", Decimal("0.00")),
    ]
    assert {each.kind: each.line for each in found.differences} == {
        "price": 3, "duplicate": 5, "tax": 9, "hours_without_trial": 8, "trials_not_billed": None,
    }  # fmt: skip
    opened = record_invoice(used, places(), "invoice.csv", found)
    assert len(opened) == 5 == len(used.findings_of(PLACE.name, "price", unsettled=True)) + 1  # the tax is of no provider
    assert record_invoice(used, places(), "invoice.csv", found) == ()


def test_next_months_file_of_the_same_name_opens_its_own_findings(used: Archive, tmp_path: Path) -> None:
    def opened(day: int) -> tuple[str, ...]:
        found = reconciled(used, tmp_path, [usage(day), usage(day, **STORAGE)])
        assert [each.kind for each in found.differences] == ["hours_without_trial"]
        return record_invoice(used, places(), "invoice.csv", found)

    november, december = opened(9), opened(39)
    assert len(november) == len(december) == 1 and november != december
    assert (opened(9), opened(39)) == ((), ()), "the same file again"
    assert {each.finding_id for each in used.findings_of(PLACE.name, "price", unsettled=True)} == {*november, *december}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"RegionId": "mars-1"}, [("region", "0.00")]),
        ({"BillingCurrency": "EUR"}, [("currency", "0.00")]),
        ({"PricingCategory": "Dynamic"}, [("price", "90.00")]),  # no spot price is declared
        ({"ChargeCategory": "Credit", "BilledCost": "-90.00"}, [("credit", "-90.00"), ("trials_not_billed", "0.00")]),
        ({"ChargeCategory": "Purchase"}, [("trials_not_billed", "0.00")]),
        ({"PricingQuantity": "1.2", "EffectiveCost": "108.00"}, []),  # within the slack
        ({"PricingQuantity": "1.5", "EffectiveCost": "135.00"}, [("hours_without_trial", "45.00")]),
        ({"PricingQuantity": "0.5", "EffectiveCost": "45.00"}, [("trials_not_billed", "0.00")]),
        ({"PricingQuantity": "2", "PricingUnit": "GPU-Hours", "EffectiveCost": "90.00"}, []),
        ({"EffectiveCost": "90.005"}, []),  # rounded
        ({"SkuId": f"BoxUsage:{PLACE.instance_type}-metal"}, [("trials_not_billed", "0.00")]),  # another type
    ],
)
def test_each_difference(used: Archive, tmp_path: Path, other: Row, expected: list[tuple[str, str]]) -> None:
    columns, standard = (*COLUMNS, "PricingCategory"), {"PricingCategory": "Standard"}
    rows = [usage(day, **(standard | (other if day == 2 else {}))) for day in range(6)]
    found = compare_invoice(used, places(), written(tmp_path, rows, columns), (), 0.25)
    assert kinds(found) == [(kind, Decimal(cost)) for kind, cost in expected]


def test_one_line_for_a_month_and_two_nodes_without_names(used: Archive, tmp_path: Path) -> None:
    month = {"ChargePeriodStart": "2026-11-01T00:00:00Z", "ChargePeriodEnd": "2026-12-01T00:00:00Z", "ResourceId": ""}
    half = usage(0, **month, PricingQuantity="3", EffectiveCost="270.00")
    assert reconciled(used, tmp_path, [half, half]).differences == ()


def test_providers_can_be_left_out(used: Archive, tmp_path: Path) -> None:
    known = places()
    known.providers["other"] = PLACE.model_copy(update={"name": "other"})
    found = compare_invoice(used, known, written(tmp_path, [usage(0)]), ("other",), 0.25)
    assert [(each.kind, each.provider) for each in found.differences] == [("hours_without_trial", "other")]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"EffectiveCost": "90,00"}, ":3, EffectiveCost is"),
        ({"EffectiveCost": "NaN"}, ":3, EffectiveCost is"),
        ({"PricingQuantity": ""}, ":3, PricingQuantity is"),
        ({"PricingQuantity": "-1"}, ":3, PricingQuantity is"),
        ({"ChargePeriodStart": "yesterday"}, ":3, ChargePeriodStart is"),
        ({"ChargePeriodEnd": "2026-11-01T00:00:00Z"}, ":3, ChargePeriodEnd is"),
        ({"ChargeCategory": "Fee"}, ":3, ChargeCategory is"),
    ],
)
def test_a_wrong_cell_is_named_with_line_column_and_shape(archive: Archive, tmp_path: Path, wrong: Row, where: str) -> None:
    with pytest.raises(HistoryError, match="expected") as error:
        reconciled(archive, tmp_path, [usage(0), usage(1, **wrong)])
    assert where in str(error.value)


@pytest.mark.parametrize(("text", "where"), [("a,b\n1,2\n", "has no column"), (";".join(COLUMNS) + "\n", "separates columns")])
def test_a_file_of_another_shape(archive: Archive, tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "invoice.csv"
    path.write_text(text)
    with pytest.raises(HistoryError, match=where):
        compare_invoice(archive, places(), path, (), 0.25)


def test_a_short_line(archive: Archive, tmp_path: Path) -> None:
    path = written(tmp_path, [usage(0)])
    path.write_text(path.read_text() + "90.00,USD\n")
    with pytest.raises(HistoryError, match=":3 has not as many columns"):
        compare_invoice(archive, places(), path, (), 0.25)


def test_memory_does_not_grow_with_the_file(archive: Archive, tmp_path: Path) -> None:
    """20,000 instance lines of some 6 MB with a description take less than a third of that; what is kept of a line is its hash."""

    def row(n: int) -> Row:
        return usage(n % 28, ResourceId=f"i-{n:06d}", SkuId=f"BoxUsage:{PLACE.instance_type}", ServiceName="x" * 150)

    path = written(tmp_path, [row(n) for n in range(20_000)])
    tracemalloc.start()
    try:
        found = compare_invoice(archive, places(), path, (), 0.25)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.matched == 20_000 and [each.kind for each in found.differences] == ["hours_without_trial"]
    assert peak < path.stat().st_size / 3
