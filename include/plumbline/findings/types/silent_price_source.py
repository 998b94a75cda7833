"""A price source that reports no price of a provider any more."""

from __future__ import annotations

from datetime import date

from plumbline.findings import provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.missing_trials import MissingTrials
from plumbline.results.finding import Finding


@register
class SilentPriceSource(MissingTrials):
    id = "silent_price_source"
    subject = "price source "
    usual = False

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline prices list {finding.provider}", "what each source says now, with its error")]

    @classmethod
    def of(cls, source: str) -> str:
        """The subject, such as `price source gpuhunt`."""
        return f"{cls.subject}{source}"


def silent_price_source_finding(provider: str, source: str, last: date | None, now: date, why: str, simulated: bool = False) -> Finding:
    """`last`: the day of the source's last price of the provider, None if it never reported one; `why` it failed on the day `now`."""
    title = f"{source} reports no price since {last}" if last is not None else f"{source} has never reported a price"
    return provider_finding(
        provider,
        "missing_data",
        SilentPriceSource.of(source),
        began=str(last or "never"),  # one finding, on whatever day it is noticed
        since=str(last or now),
        severity="warn",
        title=title,
        explanation=f"{why}; price changes go unnoticed and costs use the accepted price until it reports again",
        simulated=simulated,
    )
