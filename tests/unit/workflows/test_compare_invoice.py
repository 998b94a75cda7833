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
from pydantic import ValidationError
from tests.data.result_documents import document, provider, trial
from tests.fakes.cut_writer import full_at_each_page, killed_at_each_change
from tests.fakes.trials import CONFIG

from plumbline.analysis.prices.book import share_of
from plumbline.answers.held_spans import held_spans
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.providers.provider import Accelerator, InvoiceLines
from plumbline.judgement import met
from plumbline.price_sources.csv_history import HistoryError
from plumbline.results import Event
from plumbline.workflows.compare_invoice import COLUMNS, InvoiceResult, Selection, compare_invoice, record_invoice

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
    free = reconciled(
        used, tmp_path, [*(usage(day) for day in range(6)), usage(3, **STORAGE | {"EffectiveCost": "0.00", "BilledCost": "0"})]
    )
    assert free.judgement.verdict == "met" and "not compared, without cost: Storage" in free.judgement.text


def test_a_cost_that_an_export_rounded_to_nothing_is_the_billed_one(used: Archive, tmp_path: Path) -> None:
    rounded = usage(5, EffectiveCost="0", BilledCost="90.00")
    found = reconciled(used, tmp_path, [*(usage(day) for day in range(5)), rounded])
    assert (found.matched, found.judgement) == (6, met("6 of 6 lines compared, which agree"))
    nothing = usage(5, EffectiveCost="0", BilledCost="0")
    assert reconciled(used, tmp_path, [*(usage(day) for day in range(5)), nothing]).matched == 5


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
    opened = record_invoice(used, places(), "invoice.csv", found).opened
    assert len(opened) == 5 == len(used.findings_of(PLACE.name, "price", unsettled=True)) + 1  # the tax is of no provider
    again = record_invoice(used, places(), "invoice.csv", found)
    assert (again.opened, sorted(again.known)) == ((), [(name, "open") for name in sorted(opened)])


@pytest.mark.fault("SIGKILL before any change of a recorded invoice", ends="the same command completes it", keeps="each finding once")
@pytest.mark.fault(
    "the disk is full while an invoice is recorded", ends="an error; the same command completes it", keeps="each finding once"
)
@pytest.mark.parametrize("cut", ["killed", "full"])
def test_an_invoice_whose_record_is_cut_at_any_point(used: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    found = reconciled(used, tmp_path, [usage(1, EffectiveCost="98.00"), usage(9), usage(10, EffectiveCost="91.00")])

    def record() -> None:
        with open_archive() as opened:
            record_invoice(opened, places(), "export.csv", found)

    record()
    whole = {each.finding_id for each in used.findings_of(PLACE.name, "price", unsettled=True)}
    with open_archive(f"sqlite:///{tmp_path / 'before.db'}") as before:
        for day in range(6):
            held(before, day)
        again = (
            full_at_each_page(before, tmp_path, record, monkeypatch) if cut == "full" else killed_at_each_change(before, tmp_path, record)
        )
        for url in again:
            with open_archive(url) as left:
                assert left.verify() == []
                record_invoice(left, places(), "export.csv", found)
                assert {each.finding_id for each in left.findings_of(PLACE.name, "price", unsettled=True)} == whole
                assert left.verify() == []


def test_next_months_file_of_the_same_name_opens_its_own_findings(used: Archive, tmp_path: Path) -> None:
    def opened(day: int) -> tuple[str, ...]:
        found = reconciled(used, tmp_path, [usage(day), usage(day, **STORAGE)])
        assert [each.kind for each in found.differences] == ["hours_without_trial"]
        return record_invoice(used, places(), "invoice.csv", found).opened

    november, december = opened(9), opened(39)
    assert len(november) == len(december) == 1 and november != december
    assert (opened(9), opened(39)) == ((), ()), "the same file again"
    assert {each.finding_id for each in used.findings_of(PLACE.name, "price", unsettled=True)} == {*november, *december}


def test_a_bill_is_known_again_under_another_name_and_in_another_order(used: Archive, tmp_path: Path) -> None:
    rows = [usage(1, EffectiveCost="98.00"), usage(9), usage(10, EffectiveCost="91.00")]
    first = record_invoice(used, places(), "export.csv", reconciled(used, tmp_path, rows))
    used.set_finding_state(first.opened[0], "resolved", by="ann", why="credited")
    copied = record_invoice(used, places(), "export (1).csv", reconciled(used, tmp_path, rows[::-1]))
    assert copied.opened == () and dict(copied.known) == dict.fromkeys(first.opened, "open") | {first.opened[0]: "resolved"}
    assert f"{first.opened[0]} (resolved)" in copied.text
    dearer = [usage(1, EffectiveCost="99.00"), *rows[1:]]
    moved = record_invoice(used, places(), "export.csv", reconciled(used, tmp_path, dearer))
    assert len(moved.opened) == 1 and len(moved.known) == len(first.opened) - 1, "another amount is another finding"


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


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            {"ChargeClass": "Correction", "EffectiveCost": "-90.00", "PricingQuantity": "", "PricingUnit": ""},
            [("correction", "-90.00"), ("trials_not_billed", "0.00")],
        ),
        ({"PricingQuantity": "-1", "EffectiveCost": "-90.00"}, [("correction", "-90.00"), ("trials_not_billed", "0.00")]),
        ({"CommitmentDiscountStatus": "Unused"}, [("trials_not_billed", "0.00"), ("unused_commitment", "90.00")]),
        (
            {"EffectiveCost": "0.00", "BilledCost": "0.00"},
            [("trials_not_billed", "0.00")],
        ),  # a reservation's line beside that of its instance
        ({"ServiceName": "AWS Marketplace", "EffectiveCost": "1.50"}, [("trials_not_billed", "0.00")]),
        ({"EffectiveCost": "40.00"}, [("price_below", "-50.00")]),
        ({"EffectiveCost": "NULL", "BilledCost": ""}, []),  # no cost: the hours are compared
        ({"RegionId": PLACE.region.upper()}, []),
        ({"ChargeCategory": "usage"}, []),
        ({"ChargePeriodStart": "2026-11-04 02:00:00 UTC", "ChargePeriodEnd": "2026-11-04 03:00:00 UTC"}, []),
        ({"SkuId": "SKU-1", "SkuPriceDetails": f'{{"InstanceType": "{PLACE.instance_type}"}}'}, []),
        ({"SkuId": "SKU-1", "x_SkuDetails": PLACE.instance_type.replace("-", " ")}, []),
        ({"PricingUnit": "", "PricingQuantity": "", "ConsumedUnit": "Seconds", "ConsumedQuantity": "3600"}, []),
        ({"PricingUnit": "GB", "PricingQuantity": "3"}, [("trials_not_billed", "0.00")]),
    ],
)
def test_what_vendors_write_in_other_ways(used: Archive, tmp_path: Path, other: Row, expected: list[tuple[str, str]]) -> None:
    columns = (
        *COLUMNS,
        *("ChargeClass", "CommitmentDiscountStatus", "SkuPriceDetails", "x_SkuDetails", "ConsumedUnit", "ConsumedQuantity"),
    )
    more = dict.fromkeys(columns[len(COLUMNS) :], "")
    rows = [usage(day, **(more | (other if day == 2 else {}))) for day in range(6)]
    found = compare_invoice(used, places(), written(tmp_path, rows, columns), (), 0.25)
    assert kinds(found) == [(kind, Decimal(cost)) for kind, cost in expected]


def test_columns_that_do_not_apply_may_be_missing(used: Archive, tmp_path: Path) -> None:
    kept = [column for column in COLUMNS if column not in ("RegionId", "ResourceId", "SkuId")]
    rows = [{name: value for name, value in usage(day, ServiceName=PLACE.instance_type).items() if name in kept} for day in range(6)]
    assert compare_invoice(used, places(), written(tmp_path, rows, kept), (), 0.25).judgement.verdict == "met"


def test_two_commitments_cover_one_hour_and_what_is_over_and_under_stays_apart(used: Archive, tmp_path: Path) -> None:
    halves = [usage(0, PricingQuantity="0.5", EffectiveCost="45.00", CommitmentDiscountId=name) for name in ("ri-a", "ri-b")]
    rows = [*halves, usage(1, EffectiveCost="140.00"), usage(2, EffectiveCost="40.00"), *(usage(day) for day in (3, 4, 5))]
    rows = [{"CommitmentDiscountId": "", **row} for row in rows]
    found = compare_invoice(used, places(), written(tmp_path, rows, (*COLUMNS, "CommitmentDiscountId")), (), 0.25)
    assert kinds(found) == [("price", Decimal(50)), ("price_below", Decimal(-50))]


def test_hours_without_a_trial_are_a_sum_of_each_currency(used: Archive, tmp_path: Path) -> None:
    rows = [usage(9, BillingCurrency="EUR", EffectiveCost="80.00"), usage(10), *(usage(day) for day in range(6))]
    found = [(each.cost, each.currency) for each in reconciled(used, tmp_path, rows).differences if each.kind == "hours_without_trial"]
    assert sorted(found) == [(Decimal(80), "EUR"), (Decimal(90), "USD")]


def test_a_price_that_changes_within_a_line_bounds_it(used: Archive, tmp_path: Path) -> None:
    bought = {"purchase": "on_demand", "source": "contract 7"}
    prices = [
        {**bought, "price": "90 USD/h", "since": "2026-01-01", "until": "2026-11-05"},
        {**bought, "price": "60 USD/h", "since": "2026-11-05"},
    ]
    month = {"ChargePeriodStart": "2026-11-01T00:00:00Z", "ChargePeriodEnd": "2026-12-01T00:00:00Z", "PricingQuantity": "6"}
    known = replace(places(), providers={PLACE.name: provider(prices=prices)})
    for cost, expected in (("450.00", []), ("600.00", [("price", Decimal(60))])):
        found = compare_invoice(used, known, written(tmp_path, [usage(0, **month, EffectiveCost=cost)]), (), 0.25)
        assert kinds(found) == expected


def test_cores_memory_and_gpus_are_one_instance(used: Archive, tmp_path: Path) -> None:
    gpus = Accelerator(kind="nvidia", product="NVIDIA-H100-80GB-HBM3", count=2)
    gcp = PLACE.model_copy(update={"cloud": "gcp", "instance_type": "a3-highgpu-2g", "accelerator": gpus})
    parts = (
        ("A3 Instance Core running in Americas", "hour", "52", "4.16"),
        ("A3 Instance Ram running in Americas", "gibibyte hour", "468", "3.74"),
        ("Nvidia H100 80GB GPU attached to VMs", "hour", "2", "82.10"),
    )
    rows = [
        usage(day, SkuId="", ResourceId="", ServiceName=words, PricingUnit=unit, PricingQuantity=quantity, EffectiveCost=cost)
        for day in range(6)
        for words, unit, quantity, cost in parts
    ]
    known = replace(places(), providers={PLACE.name: gcp})
    found = compare_invoice(used, known, written(tmp_path, rows), (), 0.25)
    assert (found.matched, found.differences, found.judgement.verdict) == (18, (), "met")
    bought = usage(9, SkuId="", ResourceId="", ServiceName="Commitment: A3 Instance Core", ChargeCategory="Purchase", BilledCost="900.00")
    refund = rows[0] | {"ChargeClass": "Correction", "EffectiveCost": "-4.16", "PricingQuantity": "-52"}
    more = [{"ChargeClass": "", **row} for row in (*rows, bought, refund)]
    found = compare_invoice(used, known, written(tmp_path, more, (*COLUMNS, "ChargeClass")), (), 0.25)
    assert (found.matched, kinds(found)) == (18, [("correction", Decimal("-4.16"))])
    assert [(each.name, each.cost) for each in found.uncompared] == [("bought: Commitment: A3 Instance Core", Decimal("900.00"))]
    without = compare_invoice(used, known, written(tmp_path, [row for row in rows if "GPU" not in row["ServiceName"]]), (), 0.25)
    assert (without.judgement.verdict, without.matched) == ("not_shown", 0)
    assert (
        without.uncompared[0].name.startswith("parts of an instance without its GPUs")
        and sum(each.lines for each in without.uncompared) == 12
    )


def test_a_declared_pattern_names_the_lines(used: Archive, tmp_path: Path) -> None:
    rows = [usage(day, SkuId="PLAN-77") for day in range(6)]
    named = PLACE.model_copy(update={"invoice": InvoiceLines(match=r"PLAN-\d+")})
    assert reconciled(used, tmp_path, rows).matched == 0
    assert (
        compare_invoice(used, replace(places(), providers={PLACE.name: named}), written(tmp_path, rows), (), 0.25).judgement.verdict
        == "met"
    )
    with pytest.raises(ValidationError, match="no regular expression"):
        InvoiceLines(match="(plan")


def test_a_trial_holds_its_share_of_an_instance_that_is_sold_by_the_gpu(used: Archive) -> None:
    gpus = Accelerator(kind="nvidia", product="NVIDIA-H100-80GB-HBM3", count=8)
    whole = PLACE.model_copy(update={"accelerator": gpus})
    by_gpu = whole.model_copy(update={"sold_by": "gpu"})
    hours = [sum(span.hours for span in held_spans(used, PLACE.name, FIRST.date(), place)) for place in (None, whole, by_gpu)]
    share = share_of(by_gpu, trial(where=PLACE.of_trial()).workload.gpus)
    assert hours[0] == hours[1] and hours[2] == pytest.approx(hours[0] * (1.0 if share is None else share.fraction))


def test_an_account_with_production_in_it_is_compared_by_what_is_selected(used: Archive, tmp_path: Path) -> None:
    own = {"SubAccountId": "bench", "Tags": '{"team": "perf"}'}
    rows = [*(usage(day, **own) for day in range(6)), usage(9, SubAccountId="prod", Tags="", ResourceId="i-prod")]
    path = written(tmp_path, rows, (*COLUMNS, "SubAccountId", "Tags"))
    for selection in (Selection.of("Bench", (), None), Selection.of(None, ("team=perf",), None), Selection.of(None, (), "i-000*")):
        found = compare_invoice(used, places(), path, (), 0.25, selection)
        assert found.judgement.verdict == "met"
        assert [(each.cost, each.lines) for each in found.left_out] == [(Decimal("90.00"), 1)]
        record_invoice(used, places(), "invoice.csv", found)
    kept = [view.invoice for view in used.compared_invoices()]
    assert [each.selection for each in kept] == [("--resource", "i-000*"), ("--tag", "team=perf"), ("--account", "Bench")], "one each"
    assert kept[0].left_out == found.left_out
    nothing = compare_invoice(used, places(), path, (), 0.25, Selection.of("bensh", (), None))
    assert (nothing.judgement.verdict, nothing.lines, nothing.left_out[0].lines) == ("not_shown", 0, 7)
    with pytest.raises(ValueError, match="KEY=VALUE"):
        Selection.of(None, ("perf",), None)


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
    """8,000 instance lines of 2 MB with a description take less than a third of that; what is kept of a line is its hash."""

    def row(n: int) -> Row:
        return usage(n % 28, ResourceId=f"i-{n:06d}", SkuId=f"BoxUsage:{PLACE.instance_type}", ServiceName="x" * 150)

    path = written(tmp_path, [row(n) for n in range(8_000)])
    tracemalloc.start()
    try:
        found = compare_invoice(archive, places(), path, (), 0.25)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.matched == 8_000 and [each.kind for each in found.differences] == ["hours_without_trial"]
    assert peak < path.stat().st_size / 3
