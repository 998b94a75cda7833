"""Great Expectations, quiet: no usage reports, no progress bars, no log lines about itself. Importing it takes seconds."""

from __future__ import annotations

import logging
import os

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when it is imported

logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it reports on itself while it is imported

import great_expectations as gx  # noqa: E402
from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: E402
from great_expectations.render.renderer import ValidationResultsPageRenderer  # noqa: E402
from great_expectations.render.view import DefaultJinjaPageView  # noqa: E402

logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)  # it sets a level of its own

expect = gx.expectations
Expectation = gx.expectations.Expectation
ExpectationSuite = gx.ExpectationSuite
ValidationDefinition = gx.ValidationDefinition


def page_of(result: object) -> str:
    """The library's page of one suite's result, as HTML."""
    return str(DefaultJinjaPageView().render(ValidationResultsPageRenderer(run_info_at_end=True).render(result)))


def ephemeral() -> gx.data_context.EphemeralDataContext:
    """A context that lives in memory only: suites are code, results are pages, nothing of its own stays on disk."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context
