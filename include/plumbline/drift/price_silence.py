"""A source of prices that tells nothing for days: a silence that would hide every change of a price."""

from __future__ import annotations

from datetime import date

from plumbline.drift.finding import Finding, finding_id


def subject_of_source(source: str) -> str:
    """The subject of a finding about a source, such as `price source gpuhunt`."""
    return f"price source {source}"


def silent_source(provider: str, source: str, last: date | None, now: date, why: str, simulated: bool = False) -> Finding:
    """That a source tells no price of the provider since the day `last`, or never did; `why` it failed `now`."""
    subject = subject_of_source(source)
    since = last if last is not None else now
    title = f"{source} tells no price" + (f" since {last}" if last is not None else " and never did")
    return Finding(
        # One that never told anything is one finding, on whatever day it is noticed.
        finding_id=finding_id(provider, str(last) if last is not None else "never", "missing_data", subject),
        series_key="",
        campaign_id=None,
        kind="missing_data",
        severity="warn",
        headline=f"WARN  {'SIMULATED  ' if simulated else ''}{provider} · {title}",
        explanation=f"{why}; until it answers, a price that moves goes unseen and the accepted one holds",
        provider=provider,
        workload_kind="",
        workload="",
        subject=subject,
        title=title,
        simulated=simulated,
        since=str(since),
    )
