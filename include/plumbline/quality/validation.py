"""Runs one Great Expectations suite over one table and maps failed expectations to attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from plumbline.quality.gx import ExpectationSuite, result_of
from plumbline.quality.report import Severity

_LABELS = ("key", "number", "expected")
"""Columns that say in words what a row is about; the first is in every table."""
_MAX_NAMES = 10


@dataclass(frozen=True)
class Failure:
    """One expectation that did not hold. `details` has a sentence for each attempt (by its key) that broke it."""

    code: str
    severity: Severity
    says: str
    details: dict[str, str]


@dataclass(frozen=True)
class ExpectationOutcome:
    """A suite's result: `evaluated` expectations, those that failed, and what Great Expectations itself makes its page from."""

    suite: str
    evaluated: int
    failures: tuple[Failure, ...]
    result: Any


def validate(suite: ExpectationSuite, table: pd.DataFrame) -> ExpectationOutcome:
    """Evaluate every expectation of the suite. A column `key` names the attempt of each row; in a table of numbers `number` and `expected` say
    what the row's value is of and what it should be."""
    labels = [name for name in _LABELS if name in table.columns]
    result = result_of(suite, table, {"result_format": "COMPLETE", "unexpected_index_column_names": labels})
    failures = tuple(_failure(one.to_json_dict()) for one in result.results if not one.success)
    return ExpectationOutcome(suite.name, len(result.results), failures, result)


def _failure(one: Mapping[str, Any]) -> Failure:
    config, result = one["expectation_config"], one["result"]
    meta, severity = config["meta"], config["severity"]
    error = _error(one)
    if error is not None:
        # A check that could not run has checked nothing: that is a problem of the whole table, never a silent pass.
        return Failure("check_not_evaluated", "critical", f"{meta['code']} could not be evaluated: {error}", {})
    if meta.get("scope") == "table":
        missing = result.get("partial_missing_list") or result.get("partial_unexpected_list") or []
        names = ", ".join(sorted(str(item) for item in missing)[:_MAX_NAMES])
        count = int(result.get("missing_count") or len(missing))
        return Failure(meta["code"], severity, f"{meta['says']}; without one: {count} ({names}{' …' if count > _MAX_NAMES else ''})", {})
    found: dict[str, list[str]] = {}
    for row in result["unexpected_index_list"]:
        found.setdefault(str(row["key"]), []).append(_describe_failure(row, config["kwargs"], meta["says"]))
    return Failure(meta["code"], severity, meta["says"], {key: _shortened(texts) for key, texts in found.items()})


def _shortened(texts: list[str]) -> str:
    more = len(texts) - _MAX_NAMES
    return "; ".join(texts[:_MAX_NAMES]) + (f"; and {more} more" if more > 0 else "")


def _error(one: Mapping[str, Any]) -> str | None:
    """The error that prevented an expectation's evaluation, or None."""
    info = one.get("exception_info") or {}
    # One entry for the expectation itself, or one for each metric that it needed.
    entries = [info] if "raised_exception" in info else list(info.values())
    raised = [str(entry.get("exception_message")) for entry in entries if entry.get("raised_exception")]
    return raised[0] if raised else None


def _describe_failure(row: Mapping[str, Any], expected: Mapping[str, Any], says: str) -> str:
    """`steady.step_time.median is -0.1; expected …`: the row's number, or every column that the expectation looked at."""
    if "number" in row:
        return f"{row['number']} is {_format_value(row['value'])}; {row['expected']}"
    columns = expected.get("column_list") or [expected[name] for name in ("column", "column_A", "column_B") if name in expected]
    values = ", ".join(f"{column} is {_format_value(row.get(column))}" for column in columns)
    return f"{values}; {says}"


def _format_value(value: object) -> str:
    if value is None or value != value:  # NaN
        return "absent"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
