from __future__ import annotations

import numpy as np
import pytest

from plumbline.harness.inference.phases.cross_check import cross_check_rows, judge_cross_check
from plumbline.loadclient.cross_check import CrossCheck


def found(differ: int = 0, ours: float = 0.05, peers: float = 0.05, n: int = 100) -> CrossCheck:
    noise = np.linspace(0, 0.004, n - differ)
    return CrossCheck(n, dict.fromkeys(range(differ), "TOKEN is 1 …, by tritonclient 2 …"), ours + noise, peers + noise)


def test_rows() -> None:
    agreement, ratio = cross_check_rows(found(differ=2, ours=0.06))
    assert (agreement.metric, agreement.value, agreement.n, agreement.phase) == ("client_agreement", 0.98, 100, "steady")
    assert (ratio.metric, ratio.n) == ("client_latency_ratio", 98)
    assert ratio.value == pytest.approx(1.2, rel=0.02) and ratio.ci_low is not None and ratio.ci_low <= ratio.value


def test_nothing_was_asked_or_answered() -> None:
    nothing = CrossCheck(0, {}, np.empty(0), np.empty(0))
    assert [row.value for row in cross_check_rows(nothing)] == [None, None]
    assert judge_cross_check(nothing) == []


@pytest.mark.parametrize(
    ("check", "level", "says"),
    [
        (found(), None, ""),
        (found(differ=5), None, ""),
        (found(differ=6), "invalid", "6 of 100 answers differ .* first, request 0: TOKEN"),
        (found(ours=0.07), None, ""),
        (found(ours=0.002, peers=0.008), None, ""),
        (found(ours=0.09), "degraded", r"92\.0 ms by the load client and 52\.0 ms by tritonclient"),
        (found(ours=0.02), "degraded", "by the load client"),
        (found(ours=0.5, n=3), None, ""),
    ],
)
def test_other_answers_make_a_trial_invalid_and_other_latencies_degrade_it(check: CrossCheck, level: str | None, says: str) -> None:
    import re

    judged = judge_cross_check(check)
    assert [each.level for each in judged] == ([] if level is None else [level])
    if judged:
        assert judged[0].reason.code == "cross_check_failed"
        assert re.search(says, judged[0].reason.detail)
