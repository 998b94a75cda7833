"""How a number becomes a value from 0 to 1: its ratio to the best, or linear between a declared worst and best."""

from __future__ import annotations

import re

from plumbline.declarations.base import Declared
from plumbline.declarations.criteria import value_in
from plumbline.declarations.metrics import Metric

_MULTIPLE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*x\s+best\s*$")


class Linear(Declared):
    """0 at `worst` and beyond it, 1 at `best` and beyond it, a straight line between, as people write it.

    Both are numbers in the metric's unit (`{worst: 2s, best: 200ms}`) or multiples of the best eligible provider's (`{worst: 3x best}`,
    where `best` is `1x best` if it is left out).
    """

    worst: str
    best: str = "1x best"

    @property
    def relative(self) -> bool:
        """Whether both ends are multiples of the best."""
        return _MULTIPLE.match(self.worst) is not None and _MULTIPLE.match(self.best) is not None

    def ends(self, metric: Metric) -> tuple[float, float]:
        """Worst and best: multiples of the best if `relative`, else in the metric's unit. ValueError if they cannot be read."""
        if self.relative:
            worst, best = (float(_MULTIPLE.match(text)[1]) for text in (self.worst, self.best))  # type: ignore[index]
            return worst, best
        return value_in(metric.unit, self.worst), value_in(metric.unit, self.best)


def share_of_failures(metric: Metric) -> bool:
    """Whether the metric is a share that should be 0, such as error_rate: its ratio is taken of what did not fail."""
    return metric.unit == "ratio" and metric.group == "reliability" and metric.direction == "lower_is_better"


def flaw(function: Linear, metric: Metric) -> str | None:
    """What is wrong with a value function for this metric, with what is expected instead; None if nothing is."""
    multiples = [_MULTIPLE.match(text) is not None for text in (function.worst, function.best)]
    if metric.unit == "USD" and not all(multiples):
        return (
            f"{metric.name} is money, and limits in money would let a price change that is the same for all reorder providers; "
            "expected ratio, or multiples of the best such as {worst: 3x best}"
        )
    if any(multiples) and not all(multiples):
        return f"{metric.name} has one end as a multiple of the best and one as a number; expected both alike"
    if all(multiples) and share_of_failures(metric):
        return f"{metric.name} may be 0, of which every multiple is 0; expected numbers such as {{worst: 5%, best: 0%}}"
    try:
        worst, best = function.ends(metric)
    except ValueError as error:
        return f"{metric.name}: {error}"
    lower = metric.direction == "lower_is_better"
    if worst == best or (worst < best) is lower:
        side = "lower" if lower else "higher"
        return f"{metric.name} is better when {side}, and worst {function.worst} is no worse than best {function.best}; expected them the other way round"
    if function.relative and (best < 1 if lower else best > 1):
        return f"{metric.name}: nobody is better than the best, so {function.best} would never be reached; expected 1x best"
    return None
