"""Great Expectations, quiet: no usage reports, no progress bars, no log lines about itself. Importing it takes seconds."""

from __future__ import annotations

import logging
import os

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when it is imported

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig

for _name in ("great_expectations", "great_expectations.data_context.types.base"):  # the second sets a level of its own
    logging.getLogger(_name).setLevel(logging.WARNING)

expect = gx.expectations
Expectation = gx.expectations.Expectation
ExpectationSuite = gx.ExpectationSuite
ValidationDefinition = gx.ValidationDefinition


def ephemeral() -> gx.data_context.EphemeralDataContext:
    """A context that lives in memory only: suites are code, results are pages, nothing of its own stays on disk."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context
