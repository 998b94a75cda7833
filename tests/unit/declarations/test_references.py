"""The reference book: every entry can be looked up again, and a wrong one is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.workload import parse_metric_value
from plumbline.kinds.arithmetic.peak_flops import published_peak
from plumbline.metrics import METRICS

BOOK = load(REPOSITORY / "include" / "config").references

GOOD = """\
accelerators:
  - name: H100 SXM
    manufacturer: NVIDIA
    products: [NVIDIA H100 80GB HBM3]
    peaks: [{precision: bf16, rate: 989.4 TFLOP/s}]
    memory_bandwidth: 3.35 TB/s
    source: data sheet of the H100
    on: 2022-03-22
published:
  - name: somebody
    accelerator: H100 SXM
    count: 8
    kind: training
    shape: {model: Llama 3.1 8B, parameters: 8030261248, precision: bf16, sequence: 8192, batch: 128}
    metric: tokens_per_second_per_device
    value: 10682 tokens/s
    by: NVIDIA
    source: DGX Cloud recipes
    on: 2025-12-31
"""


def test_every_entry_names_its_source_its_day_and_a_metric_in_its_unit() -> None:
    assert len(BOOK.published) > 24 and len(BOOK.accelerators) > 8
    for entry in BOOK.published:
        known = METRICS[entry.metric]
        assert parse_metric_value(known.unit, entry.value) == entry.amount > 0, entry.name
        assert len(entry.source) >= 8 and entry.by and entry.on.year >= 2020, entry.name
    for sheet in BOOK.accelerators:
        assert sheet.bytes_per_second > 1e11 and sheet.source and sheet.on.year >= 2020, sheet.name


def test_the_sheets_are_those_that_the_harness_divides_by() -> None:
    for sheet in BOOK.accelerators:
        for product in sheet.products:
            for peak in sheet.peaks:
                assert published_peak(product, peak.precision) == pytest.approx(peak.flops), (product, peak.precision)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA-H200", "H200 SXM"),
        ("NVIDIA-A100-SXM4-80GB", "A100 SXM 80GB"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
    ],
)
def test_a_device_is_found_by_the_name_that_drivers_or_labels_give_it(product: str, name: str) -> None:
    sheet = BOOK.sheet_of(product)
    assert sheet is not None and sheet.name == name


def test_a_slice_of_a_device_is_no_device() -> None:
    assert BOOK.sheet_of("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb") is None
    assert BOOK.sheet_of(None) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tokens/s", "req/s", 'published[0].value: "10682 req/s" has the unit "req/s"; expected a token rate such as 350tokens/s'),
        ("10682 tokens/s", "0 tokens/s", 'published[0].value: "0 tokens/s" is not above 0; expected what tokens_per_second_per_device was'),
        ("metric: tokens_per_second_per_device", "metric: tokens_a_second", 'published[0].metric: unknown metric "tokens_a_second"'),
        (
            "metric: tokens_per_second_per_device\n    value: 10682 tokens/s",
            "metric: gpu_power\n    value: 700W",
            "gpu_power has no better direction",
        ),
        ("accelerator: H100 SXM", "accelerator: H100", '"H100" of somebody is none of accelerators; expected one of H100 SXM'),
        ("    source: DGX Cloud recipes\n", "", "published[0].source: is missing"),
        ("    on: 2025-12-31\n", "", "published[0].on: is missing"),
        ("kind: training", "kind: hardware", "published[0].kind: hardware with a shape"),
        ("parameters: 8030261248, ", "", "published[0].shape.parameters: is missing"),
        ("3.35 TB/s", "3.35 TB", 'accelerators[0].memory_bandwidth: "3.35 TB" has the unit "TB"; expected a bandwidth such as 20GB/s'),
        ("989.4 TFLOP/s", "989.4", "accelerators[0].peaks[0].rate: 989.4 is not valid"),
        (
            "value: 10682 tokens/s",
            "value: 10682 tokens/s\n    attention: full",
            "published[0].attention: full with metric tokens_per_second_per_device; expected it with one of model_flops, "
            "model_flops_utilization, model_flops_utilization_of_published_peak alone",
        ),
        (
            "metric: tokens_per_second_per_device\n    value: 10682 tokens/s",
            "metric: model_flops_utilization\n    value: 50%",
            "attention is missing with metric model_flops_utilization; expected causal or full",
        ),
        ("value: 10682 tokens/s", "value: 10682 tokens/s\n    attention: none", "published[0].attention: "),
        ("name: somebody", "name: somebody\n    round: 5", "published[0].round: unknown key"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(config: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    (config / "references.yaml").write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(DeclarationError) as told:
        load(config)
    assert said in str(told.value)
    assert "references.yaml:" in str(told.value)


def test_the_good_one_is_good_and_none_at_all_too(config: Path) -> None:
    assert load(config).references.published == ()
    (config / "references.yaml").write_text(GOOD, encoding="utf-8")
    assert load(config).references.published[0].amount == 10682.0


def test_a_name_stands_there_once(config: Path) -> None:
    (config / "references.yaml").write_text(GOOD + GOOD[GOOD.index("  - name: somebody") :], encoding="utf-8")
    with pytest.raises(DeclarationError, match='"somebody"'):
        load(config)
