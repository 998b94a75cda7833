"""Value functions: from a metric's numbers to values from 0 to 1, in which 1 is as good as it gets.

Numbers are first turned into a worth (more is better, ratios mean something) and written as the logarithm of its ratio to one reference;
a metric's noise is about the same share of it everywhere, so that on this scale it is added. The declared function is applied after.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import Preference
from plumbline.declarations.teams import LinearValue, is_failure_share
from plumbline.metrics import Metric

FLOOR = 1e-3
"""A thousandfold worse than the best counts as a thousandfold, and nothing is worth less: one dreadful number must not make the score 0."""

Array = NDArray[np.float64]


def worth(known: Metric, values: Array) -> Array:
    """Values of one metric turned so that more is better and ratios mean something: shape and order kept, unit gone."""
    if known.direction == "higher_is_better":
        return np.maximum(values, 0.0)
    if is_failure_share(known):
        return np.clip(1.0 - values, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.where(values > 0, 1.0 / np.maximum(values, 1e-300), np.inf)


def log_worths(known: Metric, values: Array, reference: float | Array) -> Array:
    """Logarithms of the worths' ratios to a reference worth, within a thousandfold of it; a number that is missing (NaN) stays so.

    `reference`: one, or one for each column of `values`.
    """
    worths = worth(known, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.clip(worths / reference, FLOOR, 1 / FLOOR)
    ratios = np.where(np.equal(reference, 0), 1.0, ratios)
    # Something costs or takes nothing: only another nothing compares with it.
    ratios = np.where(np.isinf(reference), np.where(np.isinf(worths), 1.0, FLOOR), ratios)
    log_ratios: Array = np.where(np.isnan(values), np.nan, np.log(ratios))
    return log_ratios


def log_values(known: Metric, function: LinearValue | None, measured: Array, reference: float | Array) -> Array:
    """Logarithms of the values, from 0 (worth 1) down to that of `FLOOR`.

    `measured`: as `logs` gives them, shape (providers, …); each column is one state of the world, in which the best provider is looked for.
    """
    behind = measured - measured.max(axis=0)
    if function is None:
        ratios: Array = np.maximum(behind, np.log(FLOOR))
        return ratios
    worst, best = function.ends(known)
    with np.errstate(over="ignore"):  # beyond every number is beyond worst or best all the same
        if function.relative:
            numbers = np.exp(behind if known.direction == "higher_is_better" else -behind)
        else:
            numbers = _numbers(known, measured, reference)
    logarithms: Array = np.log(np.clip((numbers - worst) / (best - worst), FLOOR, 1.0))
    return logarithms


def _numbers(known: Metric, measured: Array, reference: float | Array) -> Array:
    """Back from logarithms of worths to the metric's own unit."""
    worths = np.exp(measured) * reference
    if known.direction == "higher_is_better":
        return worths
    if is_failure_share(known):
        return 1.0 - worths
    with np.errstate(divide="ignore"):
        numbers: Array = 1.0 / worths
    return numbers


def describe_value_function(preference: Preference, metric: str) -> str:
    """The value function of a metric, as declared."""
    function = preference.values.get(metric)
    return "ratio to the best" if function is None else f"linear: 0 at {function.worst}, 1 at {function.best}"
