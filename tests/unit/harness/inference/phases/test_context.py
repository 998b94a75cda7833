"""How costs grow with the length of prompts: exponents of known growth, and what becomes a curve."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.unit.harness.inference.load.test_arrivals import growing

from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.phases.context import LengthMeasurement, context_curves, context_error_row, growth_exponent, growth_rows
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import Curve, metric_row

LENGTHS = [16, 32, 48, 64]


def logs_of(prefill: float, gap: float, *, first: float = 0.0) -> list[RequestLog]:
    """Prefill takes 1 ms × tokens^prefill, the first token `first` more, and gaps 1 ms × tokens^gap."""
    logs = []
    for load in schedule_of(growing(input_tokens=LENGTHS)).phases[1:]:
        log, tokens = RequestLog.of(load), float(load.input_tokens[0])
        log.due[:], log.scheduled[:], log.dispatched[:] = True, 0.0, 0.0
        log.server_s[:] = [0.0, 0.0, 1e-3 * tokens**prefill, 0.1, 0.0]
        start = first + 1e-3 * tokens**prefill
        log.token_at[:] = np.concatenate([start + 1e-3 * tokens**gap * np.arange(n) for n in load.output_tokens])
        log.received[:] = load.output_tokens
        log.ended[:] = log.last_token
        logs.append(log)
    return logs


def grown(logs: list[RequestLog]) -> dict[str, float | None]:
    return {r.metric: r.value for r in growth_rows(logs)}


def test_growth_is_the_power_of_the_length() -> None:
    assert grown(logs_of(2.0, 1.0)) == pytest.approx(
        {"prefill_growth_exponent": 2.0, "first_token_growth_exponent": 2.0, "inter_token_latency_growth": 4.0}
    )
    assert grown(logs_of(1.0, 0.0))["inter_token_latency_growth"] == pytest.approx(1.0)


def test_what_every_request_costs_alike_pulls_the_exponent_down() -> None:
    found = grown(logs_of(1.0, 0.0, first=0.5))
    assert found["prefill_growth_exponent"] == pytest.approx(1.0)
    assert 0 < (found["first_token_growth_exponent"] or 0) < 0.2


def test_without_a_value_at_every_length_there_is_no_growth() -> None:
    logs = logs_of(2.0, 1.0)
    logs[1].server_s[:] = np.nan
    assert grown(logs)["prefill_growth_exponent"] is None
    logs[3].error[:] = 1
    assert set(grown(logs).values()) == {None}
    assert growth_exponent(np.array([1.0, 2.0]), np.array([0.0, 1.0])) is None


def test_what_failed_does_not_make_a_length_look_fast() -> None:
    """All requests of a length but one failed: the one that did not says nothing of the length."""
    logs = logs_of(2.0, 1.0)
    logs[3].error[1:] = 1
    found = grown(logs)
    assert found["prefill_growth_exponent"] is None and found["first_token_growth_exponent"] is None
    logs[3].error[2:] = 0
    assert grown(logs)["first_token_growth_exponent"] == pytest.approx(2.0), "one of many leaves the median finite"


def test_errors_of_every_length_are_the_phases() -> None:
    logs = logs_of(1.0, 0.0)
    asked = sum(log.n for log in logs)
    assert (context_error_row(logs).value, context_error_row(logs).n) == (0.0, asked)
    logs[1].error[:2] = 1
    found = context_error_row(logs)
    assert (found.phase, found.value, found.n) == ("context", 2 / asked, asked)
    assert found.ci_low is not None and found.ci_high is not None and found.ci_low < 2 / asked < found.ci_high


def test_curves_hold_every_length_and_leave_out_what_nobody_saw() -> None:
    lengths = []
    for i, log in enumerate(logs_of(1.0, 0.0)):
        rows = [
            metric_row("time_to_first_token", None if i == 3 else 0.1 * i, 5, phase="context", ci=(0.0, 1.0)),
            metric_row("prefill_flops", None, 0, phase="context"),
        ]
        lengths.append(LengthMeasurement(log, None, rows))
    (curve,) = context_curves(lengths)
    assert (curve.metric, curve.statistic, curve.unit, curve.along) == ("time_to_first_token", "p50", "s", "input_tokens")
    assert [(p.at, p.value) for p in curve.points] == [(16, 0.0), (32, 0.1), (48, 0.2), (64, None)]
    assert (curve.points[0].ci_high, curve.points[3].ci_high) == (1.0, None)
    assert context_curves([]) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metric": "speed"}, "speed"),
        ({"unit": "bytes"}, "bytes"),
        ({"statistic": "p42"}, "p42"),
        ({"points": [{"at": 2, "value": 1, "n": 1}, {"at": 2, "value": 1, "n": 1}]}, "do not rise"),
        ({"points": []}, "at least 1"),
    ],
)
def test_a_curve_that_says_nothing_is_refused(change: dict[str, object], said: str) -> None:
    points = [{"at": 1, "value": 1, "n": 1}, {"at": 2, "value": None, "n": 0}]
    whole = {"phase": "context", "along": "input_tokens", "metric": "prefill_time", "statistic": "mean", "unit": "s", "points": points}
    assert len(Curve.model_validate_json(json.dumps(whole)).points) == 2
    with pytest.raises(ValueError, match=said):
        Curve.model_validate_json(json.dumps(whole | change))
