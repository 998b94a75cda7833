"""Energy and health of a gang's GPUs: what other nodes hand over, and what node 0 makes of it."""

from __future__ import annotations

import json
import os

import pytest
from tests.data.result_documents import VALIDITY
from tests.fakes.nvml import Card, Nvml

from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.gpu_monitor import NODE_GPUS, GpuPhaseMonitor, GpuWindow, MonitoredGpus, total_power

CORES = sorted(os.sched_getaffinity(0))
DBE, VOLATILE, BRAKE = 1, 0, 0x80


def reading(*cards: Card, node: int = 1, new_errors: int = 0) -> MonitoredGpus:
    """As a node hands it over: its GPUs through one steady phase, as JSON and back."""
    with GpuPhaseMonitor(60.0, Nvml(*cards), node=node) as phases:
        phases.change(None, "steady")
        for card in cards:
            if card.ecc is not None:
                card.ecc[DBE, VOLATILE] += new_errors
        phases.change("steady", None)
        return NODE_GPUS.validate_python(json.loads(json.dumps(NODE_GPUS.dump_python(phases.reading(), mode="json"))))


def steady(watts: float | None, seconds: float = 10.0) -> MonitoredGpus:
    return MonitoredGpus(8, {"steady": GpuWindow(None if watts is None else watts * seconds, seconds, 100)}, (), ())


OWN = GpuWindow(50_000.0, 10.0, 100)


def test_the_power_of_all_nodes_is_summed_each_over_its_own_window() -> None:
    assert total_power("steady", OWN, {1: steady(4000.0, 10.2), 2: steady(4500.0)}) == (pytest.approx(13_500.0), "")


@pytest.mark.fault("one node of a gang reports no energy", ends="the job's energy is absent, with the node", keeps="all other metrics")
@pytest.mark.parametrize(
    ("other", "names"),
    [
        (None, "node 2 reported no GPU readings"),
        (MonitoredGpus(0, {}, (), ()), "node 2 reads no GPUs"),
        (MonitoredGpus(8, {"warmup": GpuWindow(1.0, 1.0, 1)}, (), ()), "node 2 has no reading of steady"),
        (steady(None), "node 2: one of its GPUs"),
        (steady(4000.0, 10.6), "node 2 measured 10.60 s of steady, node 0 10.00 s"),
    ],
)
def test_power_that_one_node_lacks_is_missing_and_never_zero(other: MonitoredGpus | None, names: str) -> None:
    watts, why = total_power("steady", OWN, {1: steady(4000.0), 2: other})
    assert watts is None and why.startswith(names)


def test_a_node_0_without_a_reading_is_missing_too() -> None:
    assert total_power("steady", None, {1: steady(4000.0)})[0] is None
    assert total_power("steady", GpuWindow(None, 10.0, 0), {1: steady(4000.0)})[0] is None


def test_the_row_of_a_gang_is_the_sum_or_absent_with_its_reason() -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(Card(watts=500.0, counts=False)))) as watch, watch.phase("steady"):
        other = reading(Card(watts=200.0, counts=False), Card(watts=100.0, counts=False))
    watch.gpus.add_nodes({1: other})
    (row,) = watch.gpu_rows()
    assert row.value == pytest.approx(800.0)
    watch.gpus.add_nodes({1: other, 2: None})
    (row,) = watch.gpu_rows()
    assert (row.value, row.n) == (None, 0) and "node 2" in str(row.reason)


def test_a_gang_of_cpus_claims_nothing() -> None:
    with GpuPhaseMonitor(60.0, Nvml(refuses="Driver Not Loaded"), node=1) as phases:
        nothing = phases.reading()
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(refuses="Driver Not Loaded"))) as watch, watch.phase("steady"):
        pass
    watch.gpus.add_nodes({1: nothing, 2: None})
    assert (watch.gpu_rows(), watch.gpus.health(), watch.gpus.new_errors()) == ([], (), [])


@pytest.mark.fault(
    "a GPU of another node makes new errors", ends="degraded: gpu_ecc_uncorrected", keeps="each node's counters, with its number"
)
def test_new_errors_of_another_node_degrade_and_name_it() -> None:
    card = Card(ecc={(kind, since): 0 for kind in (0, 1) for since in (0, 1)})
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(Card(replays=1)))) as watch, watch.phase("steady"):
        pass
    watch.gpus.add_nodes({1: reading(card, new_errors=2)})
    (judgement,) = watch.gpus.new_errors()
    assert (judgement.level, judgement.reason.code) == ("degraded", "gpu_ecc_uncorrected")
    assert "node 1" in judgement.reason.detail
    rows = {(row.node, row.counter): (row.before, row.after) for row in watch.gpus.health()}
    assert (rows[0, "pcie_replays"], rows[1, "ecc_uncorrected_volatile"]) == ((1, 1), (0, 2))


def test_old_errors_of_another_node_degrade_nothing() -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(Card()))) as watch, watch.phase("steady"):
        pass
    watch.gpus.add_nodes({1: reading(Card(ecc={(kind, since): 7 for kind in (0, 1) for since in (0, 1)}))})
    assert watch.gpus.new_errors() == []


def test_throttling_of_another_node_is_told_with_its_number() -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(Card()))) as watch, watch.phase("steady"):
        pass
    watch.gpus.add_nodes({3: reading(Card(reasons=BRAKE), node=3)})
    (judgement,) = watch.gpus.new_errors()
    assert judgement.reason.code == "throttled" and "node 3" in judgement.reason.detail
    assert "throttled" not in [each.reason.code for each in watch.judgements(VALIDITY)], "node 0's own GPU ran as it should"


@pytest.mark.fault(
    "a node of a gang sends no reading of its GPUs", ends="degraded: node_gpus_unobserved", keeps="the other nodes' counters"
)
def test_a_node_with_gpus_that_sent_nothing_was_not_observed() -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(Card()))) as watch, watch.phase("steady"):
        pass
    watch.gpus.add_nodes({1: None})
    assert [each.reason.code for each in watch.gpus.new_errors()] == ["node_gpus_unobserved"]
