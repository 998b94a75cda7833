"""Launches, and checks between campaigns, that get the nodes they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.availability import MONTHS
from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.launches import launch_share
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow, plural
from plumbline.declarations.promises.judging.share import PromisedShare, interval_for, judge_share, tries_to_keep
from plumbline.metrics.formatting import format_limit
from plumbline.metrics.proportions import wilson_interval
from plumbline.metrics.units import Share


@register
class Capacity(Promise[float]):
    id = "capacity"
    fields: ClassVar = {
        "capacity": (Share | None, Field(None, description="of the launches that get the nodes they ask for, such as 95%")),
    }
    order = 40
    noun = "capacity"
    checked = True

    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterator[JudgedPromise]:
        promised = self.promised(terms)
        yield JudgedPromise(self, capacity_row(capacity_kept(seen.ended, promised)), "launches", terms.credit)
        if seen.capacity is not None and promised is not None:
            last = max((o.began for o in seen.capacity.outages if o.whose == "provider"), default=None)
            row = capacity_row(judge_share(seen.capacity.share, promised), f"{self.noun} between campaigns", "check", last)
            yield JudgedPromise(self, row, "checks", terms.credit)

    def never_shown(self, terms: SharedTerms, every_s: Mapping[str, float]) -> str:
        promised, every = self.promised(terms), every_s.get("capacity")
        if promised is None or every is None:
            return ""
        needed, days = tries_to_keep(promised), timedelta(days=30 * MONTHS)
        if needed is None:
            return "no number of checks shows it kept: one can only break it"
        made = int(days.total_seconds() // every)
        if made >= needed:
            return ""
        return f"{needed:,} granted checks needed in {MONTHS} months, {made:,} made: {interval_for(needed, days)} can show it kept"


def capacity_kept(ended: Mapping[str | None, int], promised: float | None) -> PromisedShare:
    """Launches that got the nodes they asked for, of those of `launch_share`; a gang's nodes come together, so that a launch is one try."""
    tried = launch_share(ended).n
    return judge_share(wilson_interval(tried - ended.get("insufficient_capacity", 0), tried), promised)


def capacity_row(capacity: PromisedShare, name: str = Capacity.noun, tried: str = "launch", last: datetime | None = None) -> PromiseRow:
    promised = "" if capacity.promised is None else format_limit(capacity.promised)
    share = capacity.share
    measured = f"{share.successes} of {share.n} {plural(tried)} got their nodes" if share.n else f"no {plural(tried)}"
    return PromiseRow.of_tries(name, promised, measured, capacity, tried, "refusal", last=last)
