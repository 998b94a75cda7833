"""Outliers among nodes: who is found, who is not, and how sure the test is of both."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from plumbline.analysis.node_acceptance import (
    MIN_NODES,
    POWER,
    ROLLOUT_NODES,
    AbsoluteLimit,
    FleetVerdict,
    Node,
    critical_distance,
    false_alarms,
    judge_fleet,
)
from plumbline.presentation.acceptance_sheet import NO_LIMIT, method, summary
from plumbline.results import Scalar
from plumbline.words.acceptance import figure_text, judge_delivery, judge_node, lacking_of, network_text, reasons_of, remedy_of

METRICS = ("matmul_tflops", "memory_bandwidth", "disk_write_bandwidth", "step_time")
FACTS: dict[str, Scalar] = {
    "driver.version": "570.86.15",
    "gpu.0.vbios": "96.00.74",
    "gpu.0.power_limit_w": 700.0,
    "gpu.0.pcie_width_max": 16,
    "gpu.0.nvlink_active": 18,
}


def fleet(n: int, spread: float, seed: int, slow: float = 0.0) -> list[Node]:
    """Nodes with normal noise of each figure; the first one is slower in matmul."""
    draws = np.exp(np.random.default_rng(seed).normal(0, spread, (n, len(METRICS))))
    draws[0, 0] *= 1 - slow
    return [Node(f"n{i:02d}", FACTS, dict(zip(METRICS, map(float, row), strict=True)), {}) for i, row in enumerate(draws)]


def returned(verdict: FleetVerdict) -> dict[str, str]:
    return {v.node.name: "; ".join(reasons_of(v)) for v in verdict.returned}


def slow(verdict: FleetVerdict) -> set[str]:
    return {v.node.name for v in verdict.nodes if v.slow}


def with_facts(**changed: Scalar) -> dict[str, str]:
    nodes = fleet(8, 0.005, 1)
    named = {name.replace("__", "."): value for name, value in changed.items()}
    return returned(judge_fleet([replace(nodes[0], facts={**FACTS, **named}), *nodes[1:]]))


@pytest.mark.parametrize("n", [MIN_NODES, 8, 16, 64])
def test_healthy_fleets_are_accepted_whatever_their_size(n: int) -> None:
    alarms = sum(bool(judge_fleet(fleet(n, 0.03, seed)).returned) for seed in range(300))
    assert alarms <= 0.02 * 300, alarms


@pytest.mark.parametrize("n", [8, 64])
def test_the_power_that_the_sheet_states_holds(n: int) -> None:
    critical, shift = critical_distance(n, false_alarms(n) / len(METRICS))
    assert critical > 2.5
    found = sum("n00" in slow(judge_fleet(fleet(n, 0.03, seed, slow=1 - np.exp(-shift * 0.03)))) for seed in range(400))
    assert abs(found / 400 - POWER) < 0.05
    (test,) = (t for t in judge_fleet(fleet(n, 0.03, 1)).tests if t.metric == "matmul_tflops")
    assert f"with {n} nodes a slowdown of" in figure_text(test) and "is found in 90%" in figure_text(test)


def test_a_faster_node_and_a_small_difference_are_no_fault() -> None:
    assert returned(judge_fleet(fleet(16, 0.003, 2, slow=-0.3))) == {}
    assert returned(judge_fleet(fleet(16, 0.0005, 2, slow=0.015))) == {}
    assert "n00" in slow(judge_fleet(fleet(16, 0.0005, 2, slow=0.03)))


@pytest.mark.fault(
    "two nodes report one GPU's serial number", ends="not shown: neither is accepted", keeps="both nodes by name; the others' verdicts"
)
def test_nodes_with_one_serial_number_are_named_and_none_of_them_is_accepted() -> None:
    nodes = [replace(node, serials=(f"{i}-0", f"{i}-1", "0", "")) for i, node in enumerate(fleet(8, 0.005, 1))]
    assert judge_delivery(judge_fleet(nodes)).verdict == "met", "a placeholder is no number"
    twice = [nodes[0], replace(nodes[3], serials=("3-0", "0-1")), *nodes[1:3], *nodes[4:]]
    verdict = judge_fleet(twice)
    assert {v.node.name: lacking_of(v) for v in verdict.unmeasured} == {
        "n00": ("GPU serial number 0-1 is also that of n03: one card is in one node",),
        "n03": ("GPU serial number 0-1 is also that of n00: one card is in one node",),
    }
    assert judge_delivery(verdict).verdict == "not_shown" and {t.nodes for t in verdict.tests} == {6}


def test_equal_figures_need_no_spread() -> None:
    nodes = [replace(node, figures={"step_time": 1.0}) for node in fleet(8, 0.0, 1)]
    assert returned(judge_fleet(nodes)) == {}
    assert slow(judge_fleet([replace(nodes[0], figures={"step_time": 1.05}), *nodes[1:]])) == {"n00"}


def test_two_nodes_are_compared_with_the_better_one_and_the_sheet_says_that_it_is_no_test() -> None:
    alike, throttled = judge_fleet(fleet(2, 0.01, 3)), judge_fleet(fleet(2, 0.01, 3, slow=0.4))
    assert (returned(alike), list(returned(throttled))) == ({}, ["n00"])
    assert {t.detectable for t in throttled.tests} == {None} and "too few for a test" in figure_text(throttled.tests[0])


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"driver__version": "550.90.07"}, "driver.version 550.90.07; most of the fleet has 570.86.15"),
        ({"gpu__0__vbios": "96.00.10"}, "gpu.vbios"),
        ({"gpu__0__power_limit_w": 600.0}, "gpu.power_limit_w 600.0"),
        ({"gpu__0__pcie_width_max": 8}, "gpu.pcie_width_max 8"),
        ({"gpu__0__nvlink_active": 17}, "gpu.nvlink_active 17"),
    ],
)
def test_a_fact_that_differs_from_the_majority_needs_no_statistics(changed: dict[str, Scalar], word: str) -> None:
    assert word in with_facts(**changed)["n00"]


def test_facts_that_may_differ_and_a_higher_power_limit_are_accepted() -> None:
    assert with_facts(gpu__0__power_limit_w=750.0, host__node="n00", cpu__usable=7) == {}
    halves = [replace(node, facts={**FACTS, "driver.version": str(i % 2)}) for i, node in enumerate(fleet(8, 0.005, 1))]
    found = judge_fleet(halves)
    assert returned(found) == {} and len(found.upgrading) == 8  # no majority


def changed(nodes: list[Node], count: int, **facts: Scalar) -> list[Node]:
    """The first `count` nodes with other facts."""
    named = {name.replace("__", "."): value for name, value in facts.items()}
    return [replace(n, facts={**n.facts, **(named if i < count else {})}) for i, n in enumerate(nodes)]


@pytest.mark.parametrize(
    "facts", [{"driver__version": "580.1"}, {"gpu__0__mig": True, "gpu__0__product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "gpu__count": 7}]
)
def test_what_an_operator_rolls_out_is_an_upgrade_and_on_a_single_node_a_fault(facts: dict[str, Scalar]) -> None:
    nodes = [
        replace(n, facts={**n.facts, "gpu.0.mig": False, "gpu.0.product": "NVIDIA-H100-80GB-HBM3", "gpu.count": 1})
        for n in fleet(16, 0.005, 1, slow=0.5)
    ]
    rolled = judge_fleet(changed(nodes, ROLLOUT_NODES, **facts))
    assert returned(rolled) == {} and [v.node.name for v in rolled.upgrading] == ["n01", "n02"]
    assert rolled.nodes[0].text == "not measured" and "suspect" in judge_node(rolled.nodes[0]).missing, "slow, which the driver can explain"
    assert judge_delivery(rolled).verdict == "not_shown" and "3 of 16 nodes" in judge_node(rolled.nodes[1]).missing
    assert "once the upgrade is done" in judge_node(rolled.nodes[1]).decides
    assert summary(rolled) == "not measured: 1 of 16 nodes: n00; upgrade in progress: 2 of 16 nodes: n01 and n02"
    single = judge_fleet(changed(nodes, ROLLOUT_NODES - 1, **facts))
    assert set(returned(single)) == {"n00", "n01"}


@pytest.mark.parametrize("counter", ["row_remap_pending", "row_remap_failure", "ecc_uncorrected_volatile"])
def test_a_fault_of_memory_is_returned_and_a_counter_of_zero_is_not(counter: str) -> None:
    nodes = fleet(8, 0.005, 1)
    for count, names in ((0, []), (1, ["n03"])):
        assert list(returned(judge_fleet([replace(n, counters={counter: count if n.name == "n03" else 0}) for n in nodes]))) == names


def test_only_what_a_reset_may_mend_asks_for_a_reset_first() -> None:
    nodes = fleet(8, 0.005, 1)

    def judged(**counters: int) -> FleetVerdict:
        return judge_fleet([replace(n, counters=counters if n.name == "n03" else {}) for n in nodes])

    pending, lost = judged(row_remap_pending=1), judged(row_remap_pending=1, row_remap_failure=1)
    assert [v.reset_first for v in pending.returned] == [True] and "reset its GPUs first" in remedy_of(pending.returned[0])
    assert summary(pending) == "reset first 1 of 8 nodes: n03" and "1 to reset first: n03" in str(judge_delivery(pending).seen)
    assert summary(lost) == "send back 1 of 8 nodes: n03" and judge_delivery(pending).verdict == "broken"
    assert [v.reset_first for v in lost.returned] == [False] and not any(v.reset_first for v in judged().nodes)
    assert not pending.network and "was not measured" in network_text(pending) and network_text(pending) in method(pending)
    paired = judge_fleet([replace(n, figures={**n.figures, "peer_bandwidth": 4e11}) for n in nodes])
    assert paired.network and "was measured" in network_text(paired)


def test_a_node_that_was_not_measured_is_neither_returned_nor_accepted() -> None:
    nodes = fleet(8, 0.005, 1)
    found = judge_fleet([replace(nodes[0], figures={}, facts={}, missing="the image is wrong"), *nodes[1:]])
    assert returned(found) == {} and [v.node.name for v in found.unmeasured] == ["n00"] and found.unmeasured[0].text == "not measured"
    assert summary(found) == "not measured: 1 of 8 nodes: n00"
    both = judge_fleet([replace(nodes[0], figures={}, missing="expired"), replace(nodes[1], faults=("no capacity",)), *nodes[2:]])
    assert summary(both) == "send back 1 of 8 nodes: n01; not measured: 1 of 8 nodes: n00"


@pytest.mark.parametrize("value", [None, 0.0, math.nan, -1.0])
def test_a_figure_that_others_have_and_a_node_has_not_makes_it_not_measured(value: float | None) -> None:
    nodes = fleet(8, 0.005, 1)
    figures = {m: v for m, v in nodes[0].figures.items() if m != "memory_bandwidth"}
    found = judge_fleet([replace(nodes[0], figures=figures if value is None else {**figures, "memory_bandwidth": value}), *nodes[1:]])
    (lost,) = found.unmeasured
    assert (lost.node.name, judge_node(lost).verdict, judge_delivery(found).verdict) == ("n00", "not_shown", "not_shown")
    assert "memory bandwidth" in judge_node(lost).text and judge_delivery(found).tone == "warn"
    assert {t.nodes for t in found.tests} == {7}


@pytest.mark.parametrize("value", [None, math.nan])
def test_a_fact_that_others_have_and_a_node_has_not_makes_it_not_measured(value: float | None) -> None:
    nodes = [replace(n, facts={**FACTS, "infiniband.0.rate": "400 Gb/sec"}) for n in fleet(8, 0.005, 1)]
    for key in ("gpu.0.nvlink_active", "infiniband.0.rate"):
        (lost,) = judge_fleet([replace(nodes[0], facts={**nodes[0].facts, key: value}), *nodes[1:]]).unmeasured
        assert lost.node.name == "n00" and key.replace(".0", "") in judge_node(lost).text


def test_a_fleet_of_which_nothing_was_measured_accepts_nothing() -> None:
    nodes = [replace(n, figures={}) for n in fleet(8, 0.005, 1)]
    assert {v.text for v in judge_fleet(nodes).nodes} == {"not measured"}
    assert judge_delivery(judge_fleet([])).verdict == "not_shown" and "accepted" not in summary(judge_fleet([]))


@pytest.mark.parametrize("share", [0.08, 0.5])
def test_a_suspect_goes_back_only_if_it_is_slow_again(share: float) -> None:
    suspect = fleet(64, 0.01, 4, slow=share)
    first = judge_fleet(suspect)
    assert returned(first) == {} and "suspect, measure it again" in judge_node(first.unmeasured[0]).text
    before = {"n00": ["matmul_tflops"]}
    assert list(returned(judge_fleet(suspect, before))) == ["n00"]
    assert returned(judge_fleet(fleet(64, 0.01, 5), before)) == {}


def test_a_fleet_below_an_absolute_limit_goes_back_and_without_one_the_sheet_says_so() -> None:
    nodes = fleet(8, 0.005, 1)
    assert NO_LIMIT in method(judge_fleet(nodes))
    found = judge_fleet(nodes, limits={"matmul_tflops": AbsoluteLimit(2.0, "contract")})
    assert len(found.returned) == 8 and judge_delivery(found).verdict == "broken" and NO_LIMIT not in method(found)


@pytest.mark.parametrize("noise", ["normal", "t4", "lognormal"])
def test_at_most_one_healthy_fleet_in_100_goes_back_with_long_tails(noise: str) -> None:
    draws = np.random.default_rng(7)
    draw = {"normal": draws.standard_normal, "t4": lambda n: draws.standard_t(4, n), "lognormal": lambda n: draws.lognormal(0, 0.5, n)}[
        noise
    ]
    alarms = 0
    for _ in range(300):
        figures = np.exp(-0.01 * draw((16, 4)))
        alarms += bool(
            judge_fleet([Node(f"n{i}", FACTS, dict(zip(METRICS, map(float, f), strict=True)), {}) for i, f in enumerate(figures)]).returned
        )
    assert alarms <= 3
