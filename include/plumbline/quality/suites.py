"""The expectations, as code. A critical one rejects the attempts it fails for, a warning annotates them.

Each expectation carries in `meta` its stable code, what it expects in words, and, where it is about the table and not about an
attempt, `scope: table`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from plumbline.declarations import Trial
from plumbline.quality.attempt_rows import ENVIRONMENT_FACTS, NATURAL_KEY, NUMBER_CHECKS, Kind
from plumbline.quality.gx import Expectation, ExpectationSuite, expect
from plumbline.quality.report import Severity
from plumbline.results import SCHEMA_VERSION, Status

CLOCK_TOLERANCE_S = 300.0
"""How far a provider's clock may be from ours before a date counts as wrong."""


def _expectation(code: str, severity: Severity, says: str, **more: Any) -> dict[str, Any]:
    return {"severity": severity, "meta": {"code": code, "says": says, **more}}


def _null(column: str, code: str, severity: Severity, says: str) -> Expectation:
    return expect.ExpectColumnValuesToBeNull(column=column, **_expectation(code, severity, says))


def _known(column: str, code: str, severity: Severity, says: str) -> Expectation:
    return expect.ExpectColumnValuesToNotBeNull(column=column, **_expectation(code, severity, says))


def _in(column: str, values: Sequence[object], code: str, says: str) -> Expectation:
    return expect.ExpectColumnValuesToBeInSet(column=column, value_set=list(values), **_expectation(code, "critical", says))


def _between(column: str, code: str, severity: Severity, says: str, **limits: float) -> Expectation:
    return expect.ExpectColumnValuesToBeBetween(column=column, **limits, **_expectation(code, severity, says))


def attempts_suite(planned: Sequence[Trial]) -> ExpectationSuite:
    """Expectations of every attempt, also a failed one: it exists, is complete, and matches the plan."""
    ids = sorted({trial.trial_id for trial in planned})
    same: dict[str, Any] = {"ignore_row_if": "either_value_is_missing"}
    most, differ = CLOCK_TOLERANCE_S, f"(clocks may differ by {CLOCK_TOLERANCE_S:g} s)"
    return ExpectationSuite(
        "attempts",
        expectations=[
            expect.ExpectColumnDistinctValuesToContainSet(
                column="trial_id",
                value_set=ids,
                **_expectation("trial_missing", "critical", "expected a document for every planned trial", scope="table"),
            ),
            _in("trial_id", ids, "not_planned", "expected a trial of this campaign's plan"),
            expect.ExpectCompoundColumnsToBeUnique(
                column_list=list(NATURAL_KEY),
                **_expectation("duplicate", "critical", "expected one document for each series, campaign, slot, repeat and attempt"),
            ),
            _in("schema_version", [SCHEMA_VERSION], "schema_version", f"expected schema_version {SCHEMA_VERSION}"),
            _in("checksum_holds", [True], "checksum", "expected a checksum that matches the document's content"),
            _in("status", get_args(Status), "status", "expected valid, degraded, invalid, failed or missing"),
            *(
                expect.ExpectColumnPairValuesToBeEqual(
                    column_A=f"{name}_hash",
                    column_B=f"planned_{name}_hash",
                    **same,
                    **_expectation(f"{name}_changed", "critical", f"expected the {name}_hash that was fixed before the trial ran"),
                )
                for name in ("spec", "criteria")
            ),
            _null("repeated_metrics", "repeated_metric", "critical", "expected one row for each phase, metric and statistic"),
            _between(
                "seconds_ahead_of_clock", "from_the_future", "critical", f"expected a trial that ended in the past {differ}", max_value=most
            ),
            _between(
                "seconds_before_plan",
                "before_its_plan",
                "warning",
                f"expected a trial that began after it was planned {differ}",
                max_value=most,
            ),
        ],
    )


def facts_suite(kind: Kind) -> ExpectationSuite:
    """Expectations of every credible attempt of one kind."""
    return ExpectationSuite(kind, expectations=[*_common(), *(_training() if kind == "training" else ())])


def numbers_suite(kind: Kind) -> ExpectationSuite:
    """Expectations of every number of those attempts: few expectations over one long table, as each takes the library as long as thousands of rows."""
    return ExpectationSuite(f"{kind}-numbers", expectations=[*(_at_least(code, says) for code, says in NUMBER_CHECKS.items()), _at_most()])


def _common() -> Iterator[Expectation]:
    yield _known("environment_hash", "no_environment", "critical", "expected the facts of the environment that was measured")
    for name in ENVIRONMENT_FACTS:
        yield _known(f"fact {name}", "environment_incomplete", "warning", f"expected the environment to know {name}")
    yield _between("evidence_files", "no_evidence", "warning", "expected at least one raw file behind the numbers", min_value=1)
    yield _between("smallest_n", "no_observations", "critical", "expected at least one observation behind every value", min_value=1)
    yield _null("missing_numbers", "metric_missing", "critical", "expected the numbers that this kind of trial is run for")
    in_order = "expected every confidence interval to have two ends, in order, around its value"
    yield _null("broken_intervals", "broken_interval", "warning", in_order)
    yield _null("impossible_points", "impossible_point", "critical", "expected every point of a curve to be a possible value")
    yield _null(
        "unmeasured_criteria", "criterion_unmeasured", "warning", "expected a number for every acceptance criterion of the workload"
    )
    # Its price and its network are those of another place.
    yield _null("other_places", "node_elsewhere", "warning", "expected nodes in the provider's declared region and zone")


def _training() -> Iterator[Expectation]:
    yield expect.ExpectColumnPairValuesToBeEqual(
        column_A="steps_done",
        column_B="steps_declared",
        ignore_row_if="either_value_is_missing",  # no rate at all is another expectation's
        **_expectation("steps_missing", "critical", "expected as many steps as the workload declares, warm-up included"),
    )


def _at_least(code: str, says: str) -> Expectation:
    return expect.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="value",
        column_B="at_least",
        or_equal=True,
        row_condition=f'code == "{code}"',
        condition_parser="pandas",
        **_expectation(code, "critical", says),
    )


def _at_most() -> Expectation:
    return expect.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="at_most",
        column_B="value",
        or_equal=True,
        ignore_row_if="either_value_is_missing",  # an order has no upper end
        **_expectation("out_of_range", "critical", NUMBER_CHECKS["out_of_range"]),
    )
