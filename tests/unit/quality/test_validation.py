"""Reading results: an expectation that could not be evaluated is a failure, never a pass."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from plumbline.quality.gx import ExpectationSuite, expect
from plumbline.quality.validation import validate

SAYS = "expected 0 or more"


def suite(column: str) -> ExpectationSuite:
    rule = expect.ExpectColumnValuesToBeBetween(column=column, min_value=0, severity="warning", meta={"code": "low", "says": SAYS})
    return ExpectationSuite("small", expectations=[rule])


def test_rows_are_named_by_their_key() -> None:
    table = pd.DataFrame({"key": ["a#1", "b#1", "c#1"], "x": [1.0, -2.5, None]})
    outcome = validate(suite("x"), table)
    (failure,) = outcome.failures
    assert (outcome.evaluated, failure.severity) == (1, "warning")
    assert failure.details == {"b#1": f"x is -2.5; {SAYS}"}


def test_a_table_that_holds_has_no_failures() -> None:
    assert validate(suite("x"), pd.DataFrame({"key": ["a#1"], "x": [0.0]})).failures == ()


def test_a_column_that_is_not_there_is_a_failure_of_the_table() -> None:
    (failure,) = validate(suite("y"), pd.DataFrame({"key": ["a#1"], "x": [1.0]})).failures
    assert (failure.code, failure.severity, failure.details) == ("check_not_evaluated", "critical", {})
    assert failure.says.startswith("low ")


def test_checks_of_several_threads_do_not_mix() -> None:
    def lowest(i: int) -> dict[str, str]:
        (failure,) = validate(suite("x"), pd.DataFrame({"key": [f"a#{i}", f"b#{i}"], "x": [1.0, -float(i)]})).failures
        return failure.details

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lowest, range(1, 7))) == [{f"b#{i}": f"x is -{i}; {SAYS}"} for i in range(1, 7)]


def test_a_configuration_is_that_of_the_expectations_present_fields() -> None:
    (rule,) = suite("x").expectations
    assert rule.configuration is rule.configuration
    rule.column = "y"
    assert rule.configuration.kwargs["column"] == "y"
