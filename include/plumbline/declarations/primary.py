"""The number that somebody asks of a workload first: `primary: p95 time_to_first_token in steady` in its declaration."""

from __future__ import annotations

import re

from pydantic import model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.metrics import STATISTICS, metric
from plumbline.declarations.phases import PHASES

SHAPE = "[STATISTIC] METRIC [in PHASE], such as: p95 time_to_first_token in steady"
_LINE = re.compile(r"^\s*(?:(?P<statistic>[a-z]\w*)\s+)?(?P<metric>[a-z][a-z0-9_]*)(?:\s+in\s+(?P<phase>[a-z_]+))?\s*$")


class Primary(Declared):
    """One number of a scorecard. `phase` None: the phase that leads for the metric, wherever it was measured."""

    text: str
    metric: str
    statistic: str
    phase: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: object) -> object:
        return parse_primary(value) if isinstance(value, str) else value


def parse_primary(line: str) -> dict[str, object]:
    """The fields of a `primary:`; ValueError naming what is wrong and the expected shape."""
    match = _LINE.match(line)
    if match is None:
        raise ValueError(f'"{line}" names no number; expected {SHAPE}')
    try:
        known = metric(match["metric"])
    except KeyError as error:
        raise ValueError(f'{error.args[0]} (in "{line}")') from None
    if known.direction == "informative":
        raise ValueError(
            f'"{line}": {known.name} has no better side, so nobody can be first by it; expected one that is lower or higher is better'
        )
    statistic = match["statistic"] or known.statistic
    if statistic not in STATISTICS:
        raise ValueError(f'unknown statistic "{statistic}" in "{line}"; expected one of {", ".join(STATISTICS)}')
    if match["phase"] is not None and match["phase"] not in PHASES:
        raise ValueError(f'unknown phase "{match["phase"]}" in "{line}"; expected one of {", ".join(PHASES)}')
    return {"text": " ".join(line.split()), "metric": known.name, "statistic": statistic, "phase": match["phase"]}
