from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from tests.fakes.trials import CONFIG, declared
from tests.golden import Golden
from tests.unit.harness.inference.analysis.test_metrics import SLO, fail, log_of
from tests.unit.harness.inference.analysis.test_stages import VIEW

from plumbline.declarations import Criterion, InferenceWorkload, load
from plumbline.declarations.workloads.workload import insufficient_observations
from plumbline.harness.inference.analysis.metrics import metrics_of
from plumbline.harness.inference.analysis.validity import (
    client_limited,
    counts_differ,
    pace_unmeasured,
    prompt_cut,
    too_few_requests,
)
from plumbline.harness.inference.load.schedule import schedule_of

LIMITS = declared().thresholds.validity


def test_a_prompt_client_is_no_limit() -> None:
    log = log_of(delay=0.001)
    log.cpu_s = (8.9, 1.0)
    assert client_limited(log, LIMITS) is None


@pytest.mark.parametrize(("delay", "level"), [(0.02, "degraded"), (0.15, "invalid")])
@pytest.mark.parametrize("closed", [False, True])
def test_a_late_client_is_the_limit(delay: float, level: str, closed: bool) -> None:
    judgement = client_limited(log_of(delay=delay, closed=closed), LIMITS)
    assert judgement is not None
    assert (judgement.level, judgement.reason.code) == (level, "client_limited")
    assert f"{delay * 1e3:.1f} ms" in judgement.reason.detail


def test_a_client_that_did_not_send_is_the_limit(golden: Golden) -> None:
    log = log_of()
    log.dispatched[90:] = math.nan
    judgement = client_limited(log, LIMITS)
    assert judgement is not None
    assert judgement.level == "invalid"
    golden("harness.client_limited", judgement.reason.detail)


def test_a_client_without_idle_time_may_be_the_limit() -> None:
    log = log_of()
    log.cpu_s = (1.0, 9.0)
    judgement = client_limited(log, LIMITS)
    assert judgement is not None
    assert judgement.level == "degraded"
    assert "90%" in judgement.reason.detail


def test_a_client_that_held_requests_back_is_the_limit() -> None:
    log = log_of()
    log.capped = 3
    judgement = client_limited(log, LIMITS)
    assert judgement is not None
    assert judgement.level == "degraded"
    assert judgement.reason.detail.startswith("3 requests ")


def test_counts() -> None:
    assert counts_differ(log_of(), VIEW) is None
    differs = counts_differ(log_of(), dataclasses.replace(VIEW, succeeded=99, failed=1))
    assert differs is not None
    assert (differs.level, differs.reason.code) == ("degraded", "counts_differ")
    assert counts_differ(fail(log_of(), 3), dataclasses.replace(VIEW, succeeded=99)) is None
    assert counts_differ(log_of(), None) is None


def test_what_was_not_due_is_not_counted() -> None:
    log = log_of()
    log.due[97:] = False
    assert counts_differ(log, dataclasses.replace(VIEW, succeeded=97)) is None
    assert counts_differ(log, VIEW) is not None


P99 = Criterion.model_validate("p99 time_to_first_token <= 2s in steady")


def test_a_trial_that_is_too_small_for_its_own_criteria_says_so(golden: Golden) -> None:
    judgement = too_few_requests([P99], metrics_of(log_of(n=41), SLO, None))
    assert judgement is not None
    assert (judgement.level, judgement.reason.code) == ("degraded", "too_few_requests")
    golden("harness.too_few_requests", judgement.reason.detail)


def test_a_trial_that_is_large_enough_or_whose_requests_failed_is_not_too_small() -> None:
    assert too_few_requests([P99], metrics_of(log_of(), SLO, None)) is None
    assert too_few_requests([P99], metrics_of(fail(log_of(), *range(50)), SLO, None)) is None
    assert too_few_requests([P99], []) is None


SHIPPED = [w for w in load(CONFIG).workloads.values() if isinstance(w, InferenceWorkload)]


@pytest.mark.parametrize("workload", SHIPPED, ids=lambda w: w.name)
def test_a_shipped_workload_asks_enough_for_its_own_criteria(workload: InferenceWorkload) -> None:
    requests = {phase.name: phase.n for phase in schedule_of(workload).phases}
    reasons = [
        insufficient_observations(criterion, requests[criterion.phase]) for criterion in workload.acceptance if criterion.phase in requests
    ]
    assert not [reason for reason in reasons if reason]


@pytest.mark.parametrize(
    ("sent", "read", "cached", "ids", "cut"),
    [
        ([7900, 7900], [2051, 2051], -1, False, 2),
        ([2000, 6000, 7900], [2300, 4099, 4099], -1, False, 2),
        ([2000, 7900], [4700, 18500], -1, False, 0),
        ([20, 20], [15, 15], -1, False, 0),
        ([7900, 7900], [400, 400], 7500, False, 0),
        ([7900, 7900], [7899, 7900], -1, True, 1),
        ([7900, 7900], [-1, 0], -1, False, 0),
    ],
)
def test_a_prompt_that_was_cut(sent: list[int], read: list[int], cached: int, ids: bool, cut: int) -> None:
    log = log_of(n=len(sent))
    log.load.input_tokens[:], log.usage[:, 0], log.usage[:, 1] = sent, read, cached
    judgement = prompt_cut(log, ids=ids)
    assert (judgement is None) == (cut == 0)
    if judgement is not None:
        assert judgement.level == "invalid" and f"in {cut} of {len(sent)} requests" in judgement.reason.detail


def test_a_few_answers_that_came_at_once_are_no_reason_but_hidden_tokens_are() -> None:
    log = log_of(n=10, tokens=5)
    at_once = log.token_at.reshape(10, 5)
    at_once[0] = at_once[0, 0]
    assert pace_unmeasured(log) is None
    at_once[:3] = at_once[:3, :1] + 1e-6 * np.arange(5)
    judgement = pace_unmeasured(log)
    assert judgement is not None and "3 of 10 answers" in judgement.reason.detail and "5 tokens came at once" in judgement.reason.detail
    hidden = log_of(n=100, tokens=5)
    hidden.received[7], hidden.unsent[7] = 2, 3
    judgement = pace_unmeasured(hidden)
    assert judgement is not None and "2 of 5 tokens were sent" in judgement.reason.detail
