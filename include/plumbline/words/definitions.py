"""What each number that a page shows means, in one line: the one place that pages read it from."""

from __future__ import annotations

from plumbline.metrics import METRICS

_OWN = {
    "P(first)": "chance that it is really first, given the noise of the repeats",
    "score": "weighted geometric mean of its values; 1.00 is best on every metric",
    "P(right choice)": "what the repeats add to the chance that the provider chosen after them is really first",
    "P(cheapest)": "chance that it is really the cheapest that meets the requirements",
    "experiment cost": "time that its trials hold the provider, at its price",
    "in force": "USD per hour of the whole instance that costs use today, with the one before it",
    "last reading": "what a price source said last; costs do not use it until it is accepted",
}


def definition(name: str) -> str:
    """The line of a metric of the catalogue or of a page's own number; empty of a workload's own metric."""
    known = METRICS.get(name)
    return _OWN.get(name, known.description if known is not None else "")
