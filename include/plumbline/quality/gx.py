"""Great Expectations, quiet: no usage reports, no progress bars, no log lines about itself. Importing it takes seconds."""

from __future__ import annotations

import logging
import os
import threading
from datetime import datetime, timezone
from functools import cache
from typing import Any

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when it is imported

logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it reports on itself while it is imported

import great_expectations as gx  # noqa: E402
import pandas as pd  # noqa: E402
from great_expectations.core.run_identifier import RunIdentifier  # noqa: E402
from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: E402
from great_expectations.render.renderer import ValidationResultsPageRenderer  # noqa: E402
from great_expectations.render.view import DefaultJinjaPageView  # noqa: E402

logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)  # it sets a level of its own

expect = gx.expectations
Expectation = gx.expectations.Expectation
ExpectationSuite = gx.ExpectationSuite


def page_of(result: object) -> str:
    """The library's page of one suite's result, as HTML."""
    return str(_page_view().render(ValidationResultsPageRenderer(run_info_at_end=True).render(result)))


@cache
def _page_view() -> DefaultJinjaPageView:
    """Made once: each one compiles its templates again, which takes as long as all checks of a suite."""
    return DefaultJinjaPageView()


def result_of(suite: gx.ExpectationSuite, table: pd.DataFrame, result_format: dict[str, Any]) -> gx.ExpectationSuiteValidationResult:
    """The suite's result over a table, stored nowhere: suites are code, results are pages."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    batch = context.data_sources.pandas_default.read_dataframe(table, asset_name=suite.name)
    result = batch.validate(suite, result_format=result_format)
    result.meta["run_id"] = RunIdentifier(run_time=datetime.now(timezone.utc))
    return result


class _Configured(threading.local):
    """The last expectation whose configuration was asked for, and what it was made of."""

    expectation: Any = None
    fields: dict[str, Any] | None = None
    configuration: Any = None


_last = _Configured()
_make = Expectation.configuration.fget


def _configuration(expectation: Any) -> Any:
    if _last.expectation is not expectation or _last.fields != vars(expectation):
        _last.configuration = _make(expectation)
        _last.expectation, _last.fields = expectation, dict(vars(expectation))
    return _last.configuration


# The library makes an expectation's configuration again for each argument that it reads from it: a third of the time of a suite.
Expectation.configuration = property(_configuration)
