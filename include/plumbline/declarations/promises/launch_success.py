"""Launches that start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.launches import OWN_LAUNCHES, UNPROVEN, launch_share
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow
from plumbline.declarations.promises.judging.share import PromisedShare, judge_share
from plumbline.metrics.formatting import format_percent
from plumbline.metrics.units import Share


@register
class LaunchSuccess(Promise[float]):
    id = "launch_success"
    fields: ClassVar = {"launch_success": (Share | None, None)}
    order = 10
    noun = "launch success"
    in_trials = True

    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterator[JudgedPromise]:
        yield JudgedPromise(self, launch_row(launch_success(seen.ended, self.promised(terms))), "launches", terms.credit)


def launch_success(ended: Mapping[str | None, int], promised: float | None) -> PromisedShare:
    """Launch success against what the contract promises; `ended` as of `launch_share`."""
    return judge_share(launch_share(ended), promised, sum(n for cause, n in ended.items() if cause in UNPROVEN))


def launch_row(launch: PromisedShare) -> PromiseRow:
    promised = "" if launch.promised is None else format_percent(launch.promised, 1)
    measured = f"{launch.share.successes} of {launch.share.n} launches" if launch.share.n else "no launches"
    if launch.unproven:
        measured += f"; {launch.unproven} more failed for a cause that is not proven to be the provider's"
    return PromiseRow.of_tries(LaunchSuccess.noun, promised, measured, launch, "launch", "failure", witness=OWN_LAUNCHES)
