"""Criteria are read into the metric's own unit, and lists that contradict themselves are found."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter
from tests.data.result_documents import VALIDITY, training_workload

from plumbline.declarations import AnyCriterion, Criterion, RelativeCriterion, TrainingWorkload, criteria_hash
from plumbline.declarations.workloads.workload import find_contradiction


def read(line: str) -> Criterion:
    return Criterion.model_validate(line)


@pytest.mark.parametrize(
    ("line", "metric", "statistic", "op", "limit", "phase"),
    [
        ("p95 request_scheduled_latency <= 900ms in steady", "request_scheduled_latency", "p95", "<=", 0.9, "steady"),
        ("goodput >= 4/s in steady", "goodput", "value", ">=", 4.0, "steady"),
        ("step_time<=1min in steady", "step_time", "median", "<=", 60.0, "steady"),
        ("error_rate <= 1% in stress", "error_rate", "value", "<=", 0.01, "stress"),
        ("error_rate <= 0.01 in stress", "error_rate", "value", "<=", 0.01, "stress"),
        ("training_goodput >= 95% in recovery", "training_goodput", "value", ">=", 0.95, "recovery"),
        ("memory_bandwidth >= 20GB/s in environment", "memory_bandwidth", "max", ">=", 20e9, "environment"),
        ("matmul_tflops >= 400TFLOP/s in environment", "matmul_tflops", "max", ">=", 400e12, "environment"),
        ("tokens_per_second >= 350tokens/s in steady", "tokens_per_second", "median", ">=", 350.0, "steady"),
        ("checkpoint_size <= 8GiB in steady", "checkpoint_size", "value", "<=", 8 * 2**30, "steady"),
        ("cost_per_run <= 4.20USD in steady", "cost_per_run", "value", "<=", 4.2, "steady"),
    ],
)
def test_a_line_is_read(line: str, metric: str, statistic: str, op: str, limit: float, phase: str) -> None:
    criterion = read(line)
    assert (criterion.metric, criterion.statistic, criterion.op, criterion.limit, criterion.phase) == (metric, statistic, op, limit, phase)
    assert Criterion.model_validate_json(criterion.model_dump_json()) == criterion


RELATIVE: TypeAdapter[AnyCriterion] = TypeAdapter(AnyCriterion)


@pytest.mark.parametrize(
    ("line", "statistic", "op", "within", "provider", "limit"),
    [
        ("step_time within 10% of baseline in steady", "median", "<=", 0.1, None, 0.22),
        ("p95 request_latency  within 2.5 % of provider acme-h100 in steady", "p95", "<=", 0.025, "acme-h100", 0.205),
        ("tokens_per_second within 10% of baseline in steady", "median", ">=", 0.1, None, 0.18),
        ("error_rate within 0% of provider a in stress", "value", "<=", 0.0, "a", 0.2),
    ],
)
def test_a_relative_line_is_read_and_limits_on_the_side_of_its_metric(
    line: str, statistic: str, op: str, within: float, provider: str | None, limit: float
) -> None:
    criterion = RELATIVE.validate_python(line)
    assert isinstance(criterion, RelativeCriterion)
    assert (criterion.statistic, criterion.op, criterion.provider) == (statistic, op, provider)
    assert criterion.within == pytest.approx(within)
    assert RELATIVE.validate_json(RELATIVE.dump_json(criterion)) == criterion
    limited = criterion.limited_by(0.2, "the baseline 2026-09")
    assert (limited.metric, limited.statistic, limited.op, limited.phase) == (criterion.metric, statistic, op, criterion.phase)
    assert limited.limit == pytest.approx(limit)


def test_the_limited_criterion_says_what_its_limit_comes_from() -> None:
    criterion = RELATIVE.validate_python("median step_time within 10% of baseline in steady")
    assert isinstance(criterion, RelativeCriterion)
    text = criterion.limited_by(0.191, "the baseline 2026-09").text
    assert text == "median step_time <= 210 ms in steady (within 10 % of 191 ms, the baseline 2026-09)"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step_time within 10% in steady", "within PERCENT% of baseline"),
        ("step_time within 10 of baseline in steady", "within PERCENT% of baseline"),
        ("step_time within 100% of baseline in steady", "within PERCENT% of baseline"),
        ("step_time within -5% of baseline in steady", "within PERCENT% of baseline"),
        ("step_time within 10% of baseline", "within PERCENT% of baseline"),
        ("straggler_share within 10% of baseline in steady", "has no better direction"),
        ("cost_per_run within 10% of baseline in steady", "follows its price"),
        ("step_time <= 1s", "VALUE in PHASE"),
    ],
)
def test_what_is_no_relative_criterion(line: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as raised:
        RELATIVE.validate_python(line)
    assert len(raised.value.errors()) == 1  # type: ignore[attr-defined]


def test_a_workload_carries_both_forms_and_an_absolute_one_keeps_its_hash() -> None:
    lines = ["step_time <= 500ms in steady", "step_time within 10% of baseline in steady", "step_time within 5% of baseline in steady"]
    absolute, both = training_workload(acceptance=lines[:1]), training_workload(acceptance=lines)
    assert criteria_hash(absolute, VALIDITY) == "bcd61ccdcc59d35af9deb3fc954481db082fb5a43daed3d89f61c3fa4b4779c6"
    assert criteria_hash(both, VALIDITY) != criteria_hash(absolute, VALIDITY)
    assert [type(each) for each in both.acceptance] == [Criterion, RelativeCriterion, RelativeCriterion]
    assert TrainingWorkload.model_validate_json(both.model_dump_json(exclude_defaults=True).replace("{", '{"kind":"training",', 1)) == both


def test_met_at_the_limit_and_not_beyond() -> None:
    upper, lower = read("step_time <= 500ms in steady"), read("training_goodput >= 95% in recovery")
    assert upper.met_by(0.5)
    assert not upper.met_by(0.5000001)
    assert lower.met_by(0.95)
    assert not lower.met_by(0.9499999)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step_time < 1s in steady",
        "step_time <= in steady",
        "step_time <= 1s",
        "step_time <= 1/s in steady",
        "goodput >= 4 in steady",
        "final_loss <= x in steady",
    ],
)
def test_what_is_no_criterion(line: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read(line)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("p50 step_time <= 9s in steady", "p99 step_time <= 5s in steady"), "expected the limit of p99 at or above that of p50"),
        (("median step_time <= 9s in steady", "max step_time <= 5s in steady"), "expected the limit of max"),
        (("step_time <= 1s in steady", "median step_time <= 2s in steady"), "twice; expected one criterion each"),
        (("goodput <= 4/s in steady", "goodput >= 5/s in steady"), "cannot both be met"),
        (("p50 step_time >= 9s in steady", "p99 step_time <= 5s in steady"), "cannot both be met"),
    ],
)
def test_contradictions_are_found(lines: tuple[str, ...], said: str) -> None:
    for order in (lines, lines[::-1]):
        problem = find_contradiction([read(line) for line in order])
        assert problem is not None
        assert said in problem


@pytest.mark.parametrize(
    "lines",
    [
        ("p50 step_time <= 5s in steady", "p99 step_time <= 9s in steady"),
        ("p50 step_time <= 5s in steady", "p99 step_time <= 5s in steady"),
        ("p50 step_time <= 9s in steady", "p99 step_time <= 5s in warmup"),
        ("mean step_time <= 9s in steady", "p99 step_time <= 5s in steady"),
        ("goodput >= 4/s in steady", "goodput <= 5/s in steady"),
        ("p99 step_time >= 9s in steady", "p50 step_time <= 5s in steady"),
        ("p50 step_time <= 5s in steady", "p50 data_wait_time <= 1s in steady"),
        (
            "p50 step_time within 1% of baseline in steady",
            "p50 step_time <= 5s in steady",
            "p99 step_time within 0% of provider a in steady",
        ),
    ],
)
def test_lists_that_can_be_met_are_left_alone(lines: tuple[str, ...]) -> None:
    assert find_contradiction([RELATIVE.validate_python(line) for line in lines]) is None
