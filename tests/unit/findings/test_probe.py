"""What probes between campaigns mean: when a slow one is a finding, when it is none, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from tests.golden import Golden
from tests.unit.findings.conftest import written

from plumbline.findings.probe import ProbeReconciliation, ProbeResult, judge_probes, reconcile_probes
from plumbline.findings.types.probe import Probe
from plumbline.results.finding import Finding

T = 1e12
FIRST = date(2026, 11, 1)


def history(*matmul: float, memory: float = 3.3e12) -> list[ProbeResult]:
    """Weekly probes with these TFLOP/s."""
    return [ProbeResult(FIRST + timedelta(days=7 * i), {"matmul_tflops": m * T, "memory_bandwidth": memory}) for i, m in enumerate(matmul)]


def told(*matmul: float, open_findings: tuple[Finding, ...] = (), settled: tuple[str, ...] = ()) -> ProbeReconciliation:
    return reconcile_probes("gpu", history(*matmul), {}, open_findings, rerun="it is measured again", settled=settled)


def opened() -> Finding:
    (found,) = told(800, 801, 799, 700, 702).opened
    return found


def test_one_slow_probe_only_asks_for_another_one() -> None:
    once = told(800, 801, 799, 700)
    assert (once.again, once.opened, once.changes) == (True, (), ())
    back = told(800, 801, 799, 700, 800)
    assert (back.again, back.opened) == (False, ())


def test_the_second_one_in_a_row_is_a_finding_and_starts_the_benchmark(golden: Golden) -> None:
    found = told(800, 801, 799, 700, 702)
    assert not found.again
    assert found.changes == ({"fact": "matmul_tflops", "old": "800 TFLOP/s", "new": "702 TFLOP/s"},)
    (new,) = found.opened
    assert (new.kind, new.subject, new.severity, new.campaign_id, new.since) == ("performance", Probe.subject, "warn", None, "2026-11-22")
    golden("findings.slower_in_probes", written(new))
    assert new.effect == pytest.approx(-0.1225) and [m.name for m in new.members] == ["matmul_tflops"]


@pytest.mark.parametrize("figures", [(800,), (), (800, 700), (800, 790, 770, 765), (800, 900, 1000), (800, 700, 800, 700)])
def test_too_little_slower_faster_or_not_in_a_row_is_none(figures: tuple[float, ...]) -> None:
    assert told(*figures).opened == ()


def test_the_declared_threshold_counts() -> None:
    slower = history(800, 800, 780, 780)
    assert reconcile_probes("gpu", slower, {"matmul_tflops": 0.02}, (), rerun="").opened
    assert reconcile_probes("gpu", history(800, 800, 700, 700), {"matmul_tflops": 0.2}, (), rerun="").opened == ()


def test_no_worse_than_what_was_usual_lately_is_not_slow() -> None:
    rising = (765, 800, 840, 850, 850)
    assert judge_probes(history(*rising, 770), {})[0].slow == 0
    assert judge_probes(history(*rising, 760), {})[0].slow == 1


def test_it_stands_until_a_probe_is_as_usual_and_is_not_told_twice() -> None:
    found = opened()
    assert told(800, 801, 799, 700, 702, 701, open_findings=(found,)) == replace(
        told(800, 801, 799, 700, 702, 701), opened=(), changes=(), continued=()
    )
    ((over, why),) = told(800, 801, 799, 700, 702, 798, open_findings=(found,)).resolved
    assert over == found and "2026-12-06" in why and "matmul 798 TFLOP/s" in why


def test_what_was_not_measured_is_not_over() -> None:
    blind = [*history(800, 801, 799, 700, 702), ProbeResult(date(2026, 12, 6), {"memory_bandwidth": 3.3e12})]
    seen = reconcile_probes("gpu", blind, {}, (opened(),), rerun="")
    assert seen.findings == ()


def test_another_metric_that_becomes_slow_joins_it_and_keeps_what_people_decided() -> None:
    slow = [*history(800, 801, 799, 700, 702), ProbeResult(date(2026, 12, 6), {"matmul_tflops": 700 * T, "memory_bandwidth": 2e12})]
    slow.append(ProbeResult(date(2026, 12, 13), slow[-1].figures))
    (grown,) = reconcile_probes("gpu", slow, {}, (opened().with_state("acknowledged"),), rerun="").continued
    assert (grown.finding_id, grown.since, grown.state) == (opened().finding_id, "2026-11-22", "acknowledged")
    assert [m.name for m in grown.members] == ["memory_bandwidth", "matmul_tflops"]


def test_what_begins_again_after_it_was_settled_is_another_finding() -> None:
    (again,) = told(800, 801, 799, 700, 702, settled=(opened().finding_id,)).opened
    assert again.finding_id != opened().finding_id


def test_a_number_format_that_says_the_same_is_not_told_twice() -> None:
    both = [
        ProbeResult(FIRST, {"matmul_tflops": v * T, "matmul_tflops_bf16": v * T, "matmul_tflops_fp32": 50 * T}) for v in (800, 700, 700)
    ]
    assert [j.metric for j in judge_probes(both, {})] == ["matmul_tflops", "matmul_tflops_fp32"]
