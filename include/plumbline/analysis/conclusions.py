"""Conclusions from a campaign's numbers: the one source for the report, the command line and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property

from plumbline.analysis.busy_machine import BusyMachine, busy_machine
from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.cost.bill import Bill
from plumbline.analysis.cost.campaign_bill import CampaignBill, ProviderCost
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision, decide_choice
from plumbline.analysis.decisions.decision import Choice, Decision
from plumbline.analysis.decisions.winner_change import StoredChange
from plumbline.analysis.document_sample import campaign_numbers
from plumbline.analysis.places import PlaceMatrix, place_matrices
from plumbline.analysis.prices.book import Quote, quote
from plumbline.analysis.scorecards.scorecard import Scorecard, primary_of, scorecards
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations.teams import KINDS


@dataclass(frozen=True)
class Conclusions:
    """Conclusions from a campaign's numbers at the prices of the day: cards, decisions, quotes by provider.

    `trials`: every attempt with its costs. `decided`: each team's choices with what would change them; they rest on measured numbers alone,
    unless all are simulated. `winner_changes`: the newest of each choice, from stored decisions. `today`: each choice by the current results of all campaigns. What takes longer
    is worked out when it is first asked for. `busy`: what spoilt the campaign on this machine; then there is no leader and no decision.
    """

    campaign: CampaignData
    cards: tuple[Scorecard, ...]
    decided: tuple[TeamDecision, ...]
    quotes: dict[str, Quote]
    trials: tuple[TrialSample, ...]
    winner_changes: Mapping[Choice, StoredChange] = field(default_factory=dict)
    busy: BusyMachine | None = None
    today: Mapping[Choice, Decision] = field(default_factory=dict)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The rankings."""
        return tuple(d.decision for d in self.decided)

    @cached_property
    def bills(self) -> dict[str, Bill]:
        """The bill of each trial, by trial id."""
        return self._bill.bills(self.day, self.campaign.purchase)

    @cached_property
    def provider_costs(self) -> tuple[ProviderCost, ...]:
        """The campaign's cost at each provider."""
        return self._bill.by_provider(self.day, self.campaign.purchase)

    @cached_property
    def _bill(self) -> CampaignBill:
        campaign = self.campaign
        rejected = frozenset(key for key, quality in campaign.quality.items() if quality.action == "reject")
        return CampaignBill(campaign.campaign_id, campaign.documents, campaign.providers, rejected, campaign.retention_s)

    @cached_property
    def places(self) -> tuple[PlaceMatrix, ...]:
        """Latencies by the place of the client, reads by the place of the data."""
        return tuple(place_matrices(self.campaign, self.trials))

    @property
    def day(self) -> date:
        """The day whose prices count."""
        return self.campaign.written_at.date()


def conclude(campaign: CampaignData) -> Conclusions:
    """Scorecards and decisions of a campaign; criteria are those that each trial was planned with."""
    day = campaign.written_at.date()
    specs = [d.trial for d in campaign.documents] or list(campaign.planned)
    workloads, how = {t.workload.name: t.workload for t in specs}, campaign.purchase
    trials = with_costs(
        campaign_numbers(campaign), campaign.providers, day, workloads=workloads, purchase=how, economics=campaign.economics
    )
    cards = scorecards(
        trials,
        acceptance={t.workload.name: t.workload.acceptance for t in specs},
        providers=campaign.providers,
        primaries={t.workload.name: primary_of(campaign.workloads.get(t.workload.name, t.workload)) for t in specs},
    )
    names = sorted({c.provider for c in cards})
    quotes = {n: quote(campaign.providers[n], day, campaign.purchase) for n in names if n in campaign.providers}
    if (busy := busy_machine(campaign)) is not None:
        cards = tuple(replace(card, ranked=False) for card in cards)
    return Conclusions(campaign, cards, () if busy else _decided(campaign, trials, day), quotes, trials, busy=busy)


def _decided(campaign: CampaignData, trials: tuple[TrialSample, ...], day: date) -> tuple[TeamDecision, ...]:
    # A decision about real money rests on measured numbers alone; where all is simulated it is a rehearsal's.
    measured = tuple(t for t in trials if not _simulated(campaign, t.provider)) or trials
    known = {(t.kind, t.workload) for t in measured}
    whole = CurrentResults(
        trials=measured,
        providers={n: p for n, p in campaign.providers.items() if any(t.provider == n for t in measured)},
        campaigns={(t.provider, t.workload): campaign.campaign_id for t in measured},
        simulated=frozenset(n for n in campaign.providers if _simulated(campaign, n)),
        day=day,
        purchase=campaign.purchase,
        economics=campaign.economics,
        service=campaign.service,
        workloads={t.workload.name: t.workload for t in ([d.trial for d in campaign.documents] or campaign.planned)},
    )
    return tuple(
        decide_choice(team.name, kind, preference, whole)
        for team in campaign.teams.values()
        for kind in KINDS
        for preference in team.preferences(kind)
        if any((kind, w) in known for w in preference.workloads)
    )


def _simulated(campaign: CampaignData, provider: str) -> bool:
    declared = campaign.providers.get(provider)
    return declared is not None and declared.simulated
