from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.amd_smi import AmdSmi
from tests.fakes.amd_smi import Card as AmdCard
from tests.fakes.nvml import Card, Nvml

from plumbline.harness.environment import serial_numbers
from plumbline.harness.gpu_errors import XidListener, judge_gpu_errors
from plumbline.harness.gpu_meters import open_meters
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.results import GpuCounter

SBE, DBE, VOLATILE, AGGREGATE = 0, 1, 0, 1
REPLAY, RECOVERY, FLIT, DATA = 0, 1, 2, 3


def h100() -> Card:
    """With a past: errors that it made before the trial."""
    return Card(
        ecc={(SBE, VOLATILE): 3, (SBE, AGGREGATE): 40, (DBE, VOLATILE): 1, (DBE, AGGREGATE): 2},
        rows=(5, 1, 1, 0),
        replays=12,
        links=[{FLIT: 7, DATA: 0, REPLAY: 2, RECOVERY: 1}, None, {FLIT: 1, DATA: 0, REPLAY: 0, RECOVERY: 0}],
        violations={1: 2_500_000_000},
        events=[],
    )


def counters(phases: GpuPhaseMonitor) -> dict[str, tuple[int | None, int | None]]:
    return {row.counter: (row.before, row.after) for row in phases.health() if row.gpu == 0}


def codes(phases: GpuPhaseMonitor) -> list[str]:
    found = phases.new_errors()
    assert {item.level for item in found} <= {"degraded"}
    return [item.reason.code for item in found]


def test_old_errors_that_do_not_grow_are_told_and_degrade_nothing() -> None:
    nvml = Nvml(h100(), h100())
    with GpuPhaseMonitor(60.0, nvml) as phases:
        pass
    assert codes(phases) == []
    assert counters(phases) == {
        "ecc_corrected_volatile": (3, 3),
        "ecc_corrected_aggregate": (40, 40),
        "ecc_uncorrected_volatile": (1, 1),
        "ecc_uncorrected_aggregate": (2, 2),
        "rows_remapped_correctable": (5, 5),
        "rows_remapped_uncorrectable": (1, 1),
        "row_remap_pending": (1, 1),
        "row_remap_failure": (0, 0),
        "pcie_replays": (12, 12),
        "nvlink_crc_flit": (8, 8),
        "nvlink_crc_data": (0, 0),
        "nvlink_replays": (2, 2),
        "nvlink_recoveries": (1, 1),
        "throttled_power_ms": (0, 0),
        "throttled_thermal_ms": (2500, 2500),
        "throttled_board_limit_ms": (0, 0),
        "throttled_reliability_ms": (0, 0),
        "xid": (0, 0),
    }
    assert {row.gpu for row in phases.health()} == {0, 1}
    assert (nvml.opened, nvml.event_sets) == (0, 0)


def test_what_a_card_does_not_count_is_absent_and_never_zero() -> None:
    with GpuPhaseMonitor(60.0, Nvml(Card(replays=4))) as phases:
        pass
    # XIDs are reported where this machine's own kernel log can be read.
    assert {name: ends for name, ends in counters(phases).items() if name != "xid"} == {"pcie_replays": (4, 4)}
    assert codes(phases) == []


def test_older_cards_tell_retired_pages() -> None:
    card = Card(retired={0: 2, 1: 0})
    with GpuPhaseMonitor(60.0, Nvml(card)) as phases:
        card.retired = {0: 2, 1: 1}
    found = counters(phases)
    assert (found["pages_retired_corrected"], found["pages_retired_uncorrected"]) == ((2, 2), (0, 1))
    assert found["page_retirement_pending"] == (0, 0)
    assert codes(phases) == ["gpu_memory_remapped"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"ecc": {(SBE, VOLATILE): 3, (SBE, AGGREGATE): 40, (DBE, VOLATILE): 2, (DBE, AGGREGATE): 3}}, "gpu_ecc_uncorrected"),
        ({"ecc": {(SBE, VOLATILE): 4, (SBE, AGGREGATE): 41, (DBE, VOLATILE): 1, (DBE, AGGREGATE): 2}}, "gpu_ecc_corrected"),
        ({"rows": (5, 2, 1, 0)}, "gpu_memory_remapped"),
        ({"rows": (5, 1, 1, 1)}, "gpu_memory_remapped"),
        ({"links": [{FLIT: 7, DATA: 0, REPLAY: 2, RECOVERY: 2}]}, "gpu_nvlink_errors"),
        ({"replays": 400}, "gpu_pcie_replays"),
        ({"events": [94]}, "gpu_xid"),
    ],
)
def test_a_new_error_degrades_with_its_code(changed: dict[str, object], code: str) -> None:
    card = h100()
    card.links = card.links[:1]
    with GpuPhaseMonitor(60.0, Nvml(Card(), card)) as phases:
        for name, value in changed.items():
            setattr(card, name, value)
    assert codes(phases) == [code]


def test_an_error_is_known_before_the_block_ends() -> None:
    card = h100()
    with GpuPhaseMonitor(60.0, Nvml(card)) as phases:
        assert codes(phases) == []
        card.replays = 500
        assert codes(phases) == ["gpu_pcie_replays"]


def test_xids_that_programs_cause_are_told_and_not_held_against_the_gpu() -> None:
    card = h100()
    with GpuPhaseMonitor(60.0, Nvml(card)) as phases:
        card.events = [45, 13, 45]
    found = counters(phases)
    assert (found["xid"], found["xid_13"], found["xid_45"]) == ((0, 3), (0, 1), (0, 2))
    assert codes(phases) == []


@pytest.mark.fault("a GPU falls off the bus during a trial", ends="degraded (gpu_lost)", keeps="the result and the counters before")
def test_a_gpu_that_fell_off_the_bus_is_lost() -> None:
    card = h100()
    with GpuPhaseMonitor(60.0, Nvml(card)) as phases:
        card.tells, card.rows, card.events = False, None, [79]
    assert codes(phases) == ["gpu_xid", "gpu_lost"]


def test_few_pcie_replays_are_a_links_daily_life() -> None:
    def replays(new: int) -> GpuCounter:
        return GpuCounter(gpu=0, counter="pcie_replays", before=100, after=100 + new)

    assert judge_gpu_errors([replays(80)], 600.0) == []
    assert [item.reason.code for item in judge_gpu_errors([replays(81)], 600.0)] == ["gpu_pcie_replays"]


def test_a_counter_that_restarted_counts_from_zero() -> None:
    assert GpuCounter(gpu=0, counter="ecc_corrected_volatile", before=9, after=2).new == 2
    assert GpuCounter(gpu=0, counter="ecc_corrected_volatile", before=None, after=2).new == 0


def test_amds_counters_are_told_as_far_as_the_driver_has_them() -> None:
    card = AmdCard(ecc={"correctable_count": 1, "uncorrectable_count": 0, "deferred_count": 0}, replays=3, bad_pages=0)
    with GpuPhaseMonitor(60.0, Nvml(refuses="Driver Not Loaded"), AmdSmi(card)) as phases:
        card.ecc = {"correctable_count": 1, "uncorrectable_count": 0, "deferred_count": 2}
        card.bad_pages = 1
    assert counters(phases) == {
        "ecc_corrected": (1, 1),
        "ecc_uncorrected": (0, 0),
        "ecc_deferred": (0, 2),
        "pcie_replays": (3, 3),
        "pages_retired": (0, 1),
    }
    assert codes(phases) == ["gpu_ecc_uncorrected", "gpu_memory_remapped"]
    meters = open_meters(Nvml(refuses="Driver Not Loaded"), AmdSmi(AmdCard()))
    assert meters is not None and meters.errors(0) == {}


def test_without_events_the_kernels_log_tells_xids(tmp_path: Path) -> None:
    log = tmp_path / "dev/kmsg"
    log.parent.mkdir()
    log.write_text("4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 63, from before\n")
    nvml = Nvml(Card(), Card())
    listener = XidListener(nvml, list(nvml.cards), tmp_path)
    assert (listener.counts(0), listener.counts(1)) == ({}, {})
    with log.open("a") as more:
        more.write("4,2,2,-;NVRM: Xid (PCI:0000:1c:00): 79, pid='<unknown>', GPU has fallen off the bus\n")
    assert (listener.counts(0), listener.counts(1)) == ({}, {79: 1})
    listener.close()


def test_where_nothing_tells_xids_there_is_no_count(tmp_path: Path) -> None:
    nvml = Nvml(Card())
    listener = XidListener(nvml, list(nvml.cards), tmp_path)
    assert listener.counts(0) is None
    listener.close()
    assert nvml.event_sets == 0


def test_serial_numbers_name_the_cards_and_a_card_without_one_has_its_uuid() -> None:
    nvml = Nvml(h100(), Card())
    assert serial_numbers(nvml) == ("GPU-0", "GPU-1") and nvml.opened == 0
    nvml.nvmlDeviceGetSerial = lambda card: b"16521230%d" % nvml.cards.index(card)  # type: ignore[method-assign, assignment]
    assert serial_numbers(nvml) == ("165212300", "165212301")
    assert serial_numbers(Nvml(refuses="no driver")) == ()
