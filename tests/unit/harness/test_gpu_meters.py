from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fakes.amd_smi import AmdSmi
from tests.fakes.amd_smi import Card as AmdCard
from tests.fakes.nvml import Card, Nvml
from tests.unit.harness.environment.test_accelerator import driver

from plumbline.harness.gpu_meters import open_meters


def no_nvidia() -> Nvml:
    return Nvml(refuses="Driver Not Loaded")


def test_amds_cards_answer_in_the_same_words() -> None:
    smi = AmdSmi(AmdCard(watts=700.0), AmdCard(watts=200.0))
    meters = open_meters(no_nvidia(), smi)
    assert meters is not None and meters.count == 2
    assert meters.read(0) == {
        "power": 700.0,
        "sm_clock": 2100.0,
        "memory_clock": 1300.0,
        "temperature": 61.0,
        "memory_used": 2.0**30,
        "utilization": 0.99,
    }
    before, began = meters.joules(1), time.monotonic()
    time.sleep(0.05)
    after, ended = meters.joules(1), time.monotonic()
    assert before is not None and after is not None
    assert after - before == pytest.approx(200.0 * (ended - began), rel=0.3)
    meters.close()
    assert smi.opened == 0


def test_a_card_that_tells_nothing_claims_nothing() -> None:
    meters = open_meters(no_nvidia(), AmdSmi(AmdCard(tells=False)))
    assert meters is not None
    assert (meters.read(0), meters.joules(0)) == ({}, None)
    meters = open_meters(Nvml(Card(tells=False)))
    assert meters is not None
    assert (meters.read(0), meters.joules(0)) == ({}, None)


@pytest.mark.parametrize("smi", [AmdSmi(), AmdSmi(AmdCard(), refuses="no driver")])
def test_where_there_is_no_gpu_there_are_no_meters(smi: AmdSmi) -> None:
    assert open_meters(no_nvidia(), smi) is None
    assert smi.opened == 0


def test_amd_smi_is_not_even_loaded_without_its_driver(tmp_path: Path) -> None:
    assert open_meters(no_nvidia(), None, tmp_path) is None


def test_amds_visible_cards_are_chosen_by_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    meters = open_meters(no_nvidia(), AmdSmi(AmdCard(watts=700.0), AmdCard(watts=200.0)))
    assert meters is not None
    assert (meters.count, meters.read(0)["power"]) == (1, 200.0)


def test_the_fakes_know_nothing_that_nvml_does_not() -> None:
    pynvml = pytest.importorskip("pynvml")
    asked = {name for name in (*vars(Nvml), *vars(driver())) if name.lower().startswith("nvml")}
    assert len(asked) > 30
    assert [name for name in sorted(asked) if not hasattr(pynvml, name)] == []


def test_a_machine_without_nvidias_driver_has_no_meters(tmp_path: Path) -> None:
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert open_meters(root=tmp_path) is None
    else:
        pynvml.nvmlShutdown()
        pytest.skip("there is one")
