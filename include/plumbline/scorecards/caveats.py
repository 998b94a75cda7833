"""What the repeats' own intervals add to a verdict, in words."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.declarations import METRICS, Criterion
from plumbline.declarations.confidence import (
    CONFIDENCE,
    OF_REQUESTS,
    QUANTILES,
    SHARES,
    needed_for_interval,
    needed_for_margin,
    needed_for_value,
    needed_to_prove,
)
from plumbline.declarations.reading import reading
from plumbline.scorecards.inputs import Number

_PERCENT = f"{100 * CONFIDENCE:g} %"


def never_reached(number: Number) -> bool:
    """Whether a percentile over all requests has no value although they were enough: so many of them failed that it is infinite."""
    q = QUANTILES.get(number.statistic)
    return number.value is None and q is not None and number.metric in OF_REQUESTS and number.n >= needed_for_value(q)


def caveats(criterion: Criterion, numbers: Sequence[Number]) -> list[str]:
    """What to know of the verdict on a criterion, from the rows of the repeats that measured it; one sentence each."""
    said: list[str] = []
    n = len(numbers)
    if failed := sum(map(never_reached, numbers)):
        where = "" if n == 1 else f"in {failed} of {n} "
        said.append(f"{where}so many requests failed that {criterion.statistic} was never reached")
    unsure = [m for m in numbers if _contains_the_limit(criterion, m)]
    if unsure:
        widest = max(unsure, key=lambda m: (m.ci_high or 0.0) - (m.ci_low or 0.0))
        where = f"within its {_PERCENT} interval (" if n == 1 else f"within the {_PERCENT} interval of {len(unsure)} of {n} (the widest: "
        said.append(f"the limit lies {where}{_between(widest)}){_would_tell(criterion, widest)}")
    q = QUANTILES.get(criterion.statistic)
    if q is not None and (few := [m.n for m in numbers if m.n < needed_for_interval(q)]):
        text = f"{criterion.statistic} has no {_PERCENT} interval below {needed_for_interval(q)} observations"
        said.append(f"{text}; here were {few[0]}" if n == 1 else f"{text}, which {len(few)} of {n} did not have (the smallest {min(few)})")
    return said


def _contains_the_limit(criterion: Criterion, number: Number) -> bool:
    if number.ci_low is None or number.ci_high is None:
        return False
    return criterion.met_by(number.ci_low) != criterion.met_by(number.ci_high)


def _between(number: Number) -> str:
    unit = METRICS[number.metric].unit
    return f"{reading(number.ci_low, unit)} … {reading(number.ci_high, unit)}"


def _would_tell(criterion: Criterion, number: Number) -> str:
    """How many requests would settle a share that stays what it is; nothing for other metrics, whose spread is not known from the row."""
    if criterion.metric not in SHARES or number.value is None or not 0 < criterion.limit < 1 or number.value == criterion.limit:
        return ""
    if number.value in (0.0, 1.0):
        needed = needed_to_prove(criterion.limit if number.value else 1 - criterion.limit)
    else:
        needed = needed_for_margin(number.value, abs(number.value - criterion.limit), CONFIDENCE)
    return f"; about {needed} requests would tell at this share"
