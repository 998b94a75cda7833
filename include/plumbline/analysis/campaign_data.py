"""One campaign: its documents, what was planned and declared, and its findings with what they cost a month."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from plumbline.analysis.drift.series_state import SeriesState
from plumbline.analysis.service_record import ServiceRecord
from plumbline.analysis.trial_sample import USABLE
from plumbline.declarations import AnyWorkload, Criterion, Provider, Team, Trial
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase
from plumbline.declarations.purposes import Purpose
from plumbline.declarations.references import References
from plumbline.metrics.units import Amount
from plumbline.results import ResultDocument, ResultStore
from plumbline.results.finding import Severity
from plumbline.results.published import PublishedResult


@dataclass(frozen=True)
class MonthlyTotal:
    """USD a month. `lost`, `saved`: sums of what costs more and of what costs less, both at least 0. `known`, `unknown`: rows with and without an
    amount; `gains`: those that save. `apart`: what simulated findings lose beside measured ones, in neither sum.

    `to_claim`: USD of credits that can be claimed once, in `claims` rows, `claims_unknown` of them without an amount, the first until
    `claim_until`. `reserved`: USD a month paid for `endings` reservations that end, the first on `ends_on`. Neither is in `lost` or `saved`.
    """

    lost: float = 0.0
    saved: Amount = 0.0
    known: int = 0
    unknown: int = 0
    gains: int = 0
    apart: float = 0.0
    to_claim: float = 0.0
    claims: int = 0
    claims_unknown: int = 0
    claim_until: date | None = None
    reserved: float = 0.0
    endings: int = 0
    ends_on: date | None = None

    @property
    def costly(self) -> int:
        """Rows that `lost` adds up."""
        return self.known - self.gains


def sum_monthly(amounts: Iterable[float | None]) -> MonthlyTotal:
    """The total of findings that can have a cost; None: its amount is not known."""
    every = tuple(amounts)
    known = [usd for usd in every if usd is not None]
    lost, saved = sum(usd for usd in known if usd > 0), -sum(usd for usd in known if usd < 0)
    return MonthlyTotal(lost, saved + 0.0, len(known), len(every) - len(known), sum(usd < 0 for usd in known))


@dataclass(frozen=True)
class FindingRow:
    """A finding's content in a report. `explanation`: what it is attributed to, in words; empty if nothing explains it.

    `headline`: the first line, without severity; `evidence`: the numbers behind it, empty if the finding cannot be read. `direction`: `regressed` or `improved` of a performance finding, else empty. `effect`: a fraction. `type`: its id among the types of findings. `usd_per_month`: what it costs at the declared volumes
    (negative: saves), None if unknown. `teams`: those whose workloads it concerns.
    """

    finding_id: str
    series_key: str
    kind: str
    severity: Severity
    headline: str
    state: str
    explanation: str = ""
    campaign_id: str | None = None
    provider: str = ""
    evidence: str = ""
    direction: str = ""
    effect: float | None = None
    usd_per_month: Amount | None = None
    teams: tuple[str, ...] = ()
    type: str = ""


ChoiceKey = tuple[str, str, tuple[str, ...]]
"""Team, kind and workloads: what names a choice."""


@dataclass(frozen=True)
class CampaignHistory:
    """The history before a campaign, and the open findings.

    `open_findings`: all that wait, of any campaign; `monthly`: what they cost and save. `choices`: the first provider of the last decision that did not rest on this campaign.
    `index`: provider → campaign → speed over all its workloads, 100 in its first campaign. `volumes`: declared instance time a month.
    """

    open_findings: tuple[FindingRow, ...] = ()
    monthly: MonthlyTotal = field(default_factory=MonthlyTotal)
    choices: Mapping[ChoiceKey, str] = field(default_factory=dict)
    index: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    volumes: tuple[RentedVolume, ...] = ()


@dataclass(frozen=True)
class SeriesDrift:
    """One series compared with its accepted baseline. `baseline`: campaign ids, empty if none was accepted before this campaign.

    `verdicts`: how many metrics got each verdict of `analysis.drift.comparison`.
    """

    series_key: str
    provider: str
    kind: str
    workload: str
    baseline: tuple[str, ...]
    verdicts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    state: SeriesState = field(default_factory=lambda: SeriesState("cannot_tell"))


@dataclass(frozen=True)
class CampaignQuality:
    """The verdict of the quality checks on one attempt: accept, annotate or reject, with the reason."""

    action: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class CampaignData:
    """Everything that one report says.

    `documents`: every collected attempt that no correction replaced. `planned`: what was asked; a planned trial without a document is reported as missing.
    `quality`: by (trial id, attempt); a rejected attempt is kept, shown and never scored. `store`: where the raw evidence behind the
    distribution charts lies; without it those charts are left out and the report says so. `written_at`: also the day whose prices count.
    `workloads`: as they are declared now, by name, for which number is asked first; criteria are those of the trials. `references`: what
    others publish. `economics`: what a cost depends on that is not measured. `imported`: runs of other tools for the campaign's workloads,
    never scored. `commitments`: reserved hours as a table, headings first. `resolved`: relative criteria by series. `retention_s`: how long raw evidence is kept, None for ever.
    `history`: what the cover compares with. `service`: by provider, in the campaign's months. `purpose`: what it was planned for.
    """

    campaign_id: str
    reason: str
    documents: tuple[ResultDocument, ...]
    providers: Mapping[str, Provider]
    teams: Mapping[str, Team]
    written_at: datetime
    planned: tuple[Trial, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    drift: tuple[SeriesDrift, ...] = ()
    quality: Mapping[tuple[str, int], CampaignQuality] = field(default_factory=dict)
    store: ResultStore | None = None
    purchase: Purchase = "on_demand"
    workloads: Mapping[str, AnyWorkload] = field(default_factory=dict)
    references: References = field(default_factory=References)
    economics: Economics = field(default_factory=Economics)
    retention_s: float | None = None
    imported: tuple[PublishedResult, ...] = ()
    commitments: tuple[tuple[str, ...], ...] = ()
    resolved: Mapping[str, Mapping[str, Criterion]] = field(default_factory=dict)
    history: CampaignHistory = field(default_factory=CampaignHistory)
    service: Mapping[str, ServiceRecord] = field(default_factory=dict)
    purpose: Purpose = "monthly"

    @property
    def usable(self) -> tuple[ResultDocument, ...]:
        """Documents whose numbers count: valid or degraded, and not rejected by the quality checks."""
        rejected = {key for key, quality in self.quality.items() if quality.action == "reject"}
        return tuple(d for d in self.documents if d.validity.status in USABLE and (d.trial.trial_id, d.trial.attempt) not in rejected)
