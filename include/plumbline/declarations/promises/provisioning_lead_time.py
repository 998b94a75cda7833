"""Launches that run in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.launches import OWN_LAUNCHES
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow, format_seconds
from plumbline.declarations.promises.judging.share import PromisedShare, judge_share
from plumbline.metrics.formatting import format_percent
from plumbline.metrics.pooling import PooledMetric
from plumbline.metrics.proportions import wilson_interval
from plumbline.metrics.units import Duration, Share


@register
class ProvisioningLeadTime(Promise[float]):
    id = "provisioning_lead_time"
    fields: ClassVar = {
        "provisioning_lead_time": (Duration | None, None),
        "lead_time_share": (Share, Field(0.95, description="of the launches, for which the lead time is promised")),
    }
    order = 20
    noun = "lead time"
    unit = "s"
    in_trials = True

    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterator[JudgedPromise]:
        yield JudgedPromise(self, lead_time_row(judge_lead_time(seen.lead_times, terms)), "launches", terms.credit)


@dataclass(frozen=True)
class LeadTime:
    """Times from the request for a trial to its running process (of a gang: the last pod's), in seconds, against what the contract promises.

    `kept`: launches within `promised_s`, against the share of launches that the contract promises it for. Launches that never ran have no lead
    time: launch success counts them.
    """

    time: PooledMetric
    promised_s: float | None
    kept: PromisedShare


def judge_lead_time(time: PooledMetric, terms: SharedTerms) -> LeadTime:
    """The lead times of launches against the promised one."""
    promised = ProvisioningLeadTime.promised(terms)
    if promised is None:
        return LeadTime(time, None, judge_share(wilson_interval(0, 0), None))
    kept = wilson_interval(sum(value <= promised for value in time.values), time.n)
    return LeadTime(time, promised, judge_share(kept, ProvisioningLeadTime.term(terms, "lead_time_share")))


def lead_time_row(lead: LeadTime) -> PromiseRow:
    promised = ""
    if lead.promised_s is not None and lead.kept.promised is not None:
        promised = f"{format_seconds(lead.promised_s)} for {format_percent(lead.kept.promised)} of launches"
    share, middle = lead.kept.share, lead.time.value
    measured = lead.time.reason or "not measured"
    if middle is not None:
        measured = f"{share.successes} of {share.n} within it, median {format_seconds(middle)}"
    return PromiseRow.of_tries(ProvisioningLeadTime.noun, promised, measured, lead.kept, "launch", "late one", witness=OWN_LAUNCHES)
