from __future__ import annotations

import math

import pytest
from tests.fakes.trials import declared
from tests.unit.harness.inference.test_metrics import fail, log_of

from plumbline.harness.inference.control import Statistics
from plumbline.harness.inference.judging import client_limited, counts_differ

LIMITS = declared().thresholds.validity


def test_a_prompt_client_is_no_limit() -> None:
    assert client_limited(log_of(delay=0.001), LIMITS) is None


@pytest.mark.parametrize(("delay", "level"), [(0.02, "degraded"), (0.15, "invalid")])
def test_a_late_client_is_the_limit(delay: float, level: str) -> None:
    judgement = client_limited(log_of(delay=delay), LIMITS)
    assert judgement is not None
    assert (judgement.level, judgement.reason.code) == (level, "client_limited")
    assert f"{delay * 1e3:.1f} ms" in judgement.reason.detail


def test_a_client_that_did_not_send_is_the_limit() -> None:
    log = log_of()
    for r in log.requests[90:]:
        r.dispatched = math.nan
    judgement = client_limited(log, LIMITS)
    assert judgement is not None
    assert judgement.level == "invalid"
    assert "90.0% of the scheduled rate" in judgement.reason.detail


def test_counts() -> None:
    assert counts_differ(log_of(), Statistics(100, 0, 0.1)) is None
    differs = counts_differ(log_of(), Statistics(99, 1, 0.1))
    assert differs is not None
    assert (differs.level, differs.reason.code) == ("degraded", "counts_differ")
    assert counts_differ(fail(log_of(), 3), Statistics(99, 0, 0.1)) is None
    assert counts_differ(log_of(), None) is None
