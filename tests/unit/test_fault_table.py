from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fault_table import END, START, Outcomes, Row, _literals, page, rows


def call(source: str) -> ast.Call:
    return cast(ast.Call, ast.parse(source, mode="eval").body)


def report(nodeid: str, outcome: str, when: str = "call") -> Any:
    return SimpleNamespace(nodeid=nodeid, outcome=outcome, when=when)


@pytest.mark.parametrize(
    "source",
    ['fault("a", ends="b")', 'fault(name, ends="b", keeps="c")', 'fault("a", "b", "c")', f'fault("{"a" * 91}", ends="b", keeps="c")'],
)
def test_a_marker_that_is_no_row_is_refused_with_its_place(source: str) -> None:
    with pytest.raises(ValueError, match=r"^tests/x\.py::test_x: .*expected"):
        _literals(call(source), "tests/x.py::test_x")


def test_every_row_names_a_test_of_a_section_and_no_row_twice() -> None:
    found = rows()
    assert len({(row.breaks, row.path, row.test) for row in found}) == len(found) > 60
    assert {row.section for row in found} >= {"Archive", "Alerts", "On a real cluster"}


def test_the_worst_outcome_of_a_rows_tests_counts() -> None:
    row = Row("it breaks", "an error", "the rest", "tests/x.py", "test_x", full=False)
    outcomes = Outcomes()
    assert outcomes.of(row) == "not run"
    outcomes.pytest_runtest_logreport(report("tests/x.py::test_x[a]", "rerun"))
    outcomes.pytest_runtest_logreport(report("tests/x.py::test_x[a]", "passed"))
    assert outcomes.of(row) == "passed"
    outcomes.pytest_runtest_logreport(report("tests/x.py::test_x[b]", "failed", when="setup"))
    outcomes.pytest_runtest_logreport(report("tests/x.py::test_x[b]", "passed", when="teardown"))
    outcomes.pytest_runtest_logreport(report("tests/x.py::test_xy", "skipped"))
    assert outcomes.of(row) == "failed"


def test_a_page_without_its_two_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the lines"):
        page("# Reliability")
    assert page(f"a\n{START}\nold\n{END}\nb").startswith(f"a\n{START}\n\n## ")
