"""Launches, and checks between campaigns, that get the nodes they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.launches import launch_share
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow, plural
from plumbline.declarations.promises.judging.share import PromisedShare, judge_share
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


def capacity_kept(ended: Mapping[str | None, int], promised: float | None) -> PromisedShare:
    """Launches that got the nodes they asked for, of those of `launch_share`; a gang's nodes come together, so that a launch is one try."""
    tried = launch_share(ended).n
    return judge_share(wilson_interval(tried - ended.get("insufficient_capacity", 0), tried), promised)


def capacity_row(capacity: PromisedShare, name: str = Capacity.noun, tried: str = "launch", last: datetime | None = None) -> PromiseRow:
    promised = "" if capacity.promised is None else format_limit(capacity.promised)
    share = capacity.share
    measured = f"{share.successes} of {share.n} {plural(tried)} got their nodes" if share.n else f"no {plural(tried)}"
    return PromiseRow.of_tries(name, promised, measured, capacity, tried, "refusal", last=last)
