"""A workload of which no trial of a campaign is usable on any provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plumbline.findings.types.base import register
from plumbline.findings.types.missing_trials import MissingTrials
from plumbline.metrics.formatting import shorten
from plumbline.results.finding import Finding, Member, finding_id
from plumbline.results.sample import Series


@register
class UnusableWorkload(MissingTrials):
    id = "unusable_workload"
    subject = "unusable "
    usual = False

    @classmethod
    def of(cls, series_key: str) -> str:
        """The subject, such as `unusable training gpt@2`."""
        series = Series.parse(series_key)
        return f"{cls.subject}{series.kind} {series.workload}@{series.version}"


def unusable_workload_finding(
    provider: str, campaign_id: str, series: Sequence[str], reasons: Mapping[str, int], simulated: bool
) -> Finding:
    """A workload of which no trial is usable anywhere. `series`: its series of the campaign; `reasons`: why, by how many attempts, the most
    common one first."""
    first = Series.parse(series[0])
    attempts = sum(reasons.values())
    why, most = next(iter(reasons.items()))
    title = f"no usable result: {most} of {attempts} attempts {why}"
    others = [f"{name} × {n}" for name, n in reasons.items()][1:]
    where = f"{len(series)} {'providers' if len(series) != 1 else 'provider'}"
    return Finding(
        finding_id=finding_id(provider, campaign_id, "missing_data", UnusableWorkload.of(series[0])),
        series_key=series[0],
        campaign_id=campaign_id,
        kind="missing_data",
        severity="page",
        evidence=f"{title}, in campaign {campaign_id}",
        explanation=f"nothing of the workload can be used on {where}" + (f"; also {shorten(others)}" if others else ""),
        provider=provider,
        workload_kind=first.kind,
        workload=first.workload,
        subject=UnusableWorkload.of(series[0]),
        title=title,
        simulated=simulated,
        members=tuple(Member(name, f"{name} × {n}") for name, n in reasons.items()),
        series=tuple(series),
        standing=tuple(series),
    )
