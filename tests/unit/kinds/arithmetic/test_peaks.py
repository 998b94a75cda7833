"""Published peaks by the names that drivers give."""

from __future__ import annotations

import pytest

from plumbline.kinds.arithmetic.peak_flops import published_peak


@pytest.mark.parametrize(
    ("device", "precision", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4),
        ("NVIDIA H100 PCIe", "bf16", 756.0),
        ("NVIDIA H100 NVL", "fp8", 1670.0),
        ("NVIDIA H200", "fp8", 1978.9),
        ("NVIDIA H200 NVL", "bf16", 835.0),
        ("NVIDIA GH200 480GB", "tf32", 494.7),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312.0),
        ("NVIDIA A10", "fp16", 125.0),
        ("NVIDIA L4", "fp32", 30.3),
        ("NVIDIA L40S", "bf16", 362.0),
        ("AMD Instinct MI300X", "bf16", 1307.4),
        ("NVIDIA B200", "bf16", 2250.0),
        ("NVIDIA GB200", "bf16", 2500.0),
        ("NVIDIA GB300", "fp8", 5000.0),
        ("NVIDIA B300 SXM6 AC", "bf16", 2250.0),
        ("NVIDIA H20", "bf16", 148.0),
        ("NVIDIA H20-3e", "fp8", 296.0),
        ("AMD Instinct MI325X", "bf16", 1307.4),
        ("AMD Instinct MI355X", "fp8", 5033.2),
    ],
)
def test_known_devices(device: str, precision: str, tera: float) -> None:
    assert published_peak(device, precision) == pytest.approx(tera * 1e12)


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        (None, "bf16"),
        ("NVIDIA GeForce RTX 4090", "bf16"),
        ("NVIDIA A100-SXM4-80GB", "fp8"),  # it has none
        ("NVIDIA A10G", "bf16"),  # not an A10
        ("AMD Instinct MI355X", "tf32"),  # computed in bf16
        ("NVIDIA L40", "bf16"),  # not an L4
        ("NVIDIA H100 NVL MIG 2g.24gb", "bf16"),  # a slice does not have the rate of the whole
    ],
)
def test_what_is_not_published_is_absent(device: str | None, precision: str) -> None:
    assert published_peak(device, precision) is None


@pytest.mark.parametrize(
    ("device", "units", "megahertz", "a_clock"),
    [
        ("AMD Instinct MI325X", 304, 2100, {"fp8": 4096, "bf16": 2048, "fp16": 2048, "tf32": 1024, "fp32": 256}),
        ("AMD Instinct MI355X", 256, 2400, {"fp8": 8192, "bf16": 4096, "fp16": 4096, "fp32": 256}),
    ],
)
def test_amds_rates_are_what_their_units_do_at_their_clock(device: str, units: int, megahertz: int, a_clock: dict[str, int]) -> None:
    for precision, flops in a_clock.items():
        assert published_peak(device, precision) == pytest.approx(units * megahertz * 1e6 * flops, rel=3e-4)  # sheets print four digits


def test_the_gpus_of_a_rack_do_what_its_sheet_says() -> None:
    sheet = {"fp8": 720e15 / 2, "bf16": 360e15 / 2, "tf32": 180e15 / 2}
    assert {precision: published_peak("NVIDIA GB300", precision) for precision in sheet} == {p: rate / 72 for p, rate in sheet.items()}
    board = {"fp8": 72e15 / 2, "bf16": 36e15 / 2, "tf32": 18e15 / 2, "fp32": 600e12}
    assert {precision: published_peak("NVIDIA B300", precision) for precision in board} == {p: rate / 8 for p, rate in board.items()}
