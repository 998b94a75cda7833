"""What follows from a campaign's numbers: the one place that the report, the command line and the pages take it from."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.prices import Quote, quote
from plumbline.reports.content import CampaignData
from plumbline.reports.numbers import campaign_numbers, epoch_tokens
from plumbline.scorecards import Decision, Scorecard, TrialNumbers, decide, priced, primary_of, scorecards


@dataclass(frozen=True)
class Conclusions:
    """What follows from a campaign's numbers at the prices of the day: cards, decisions, quotes by provider.

    `trials`: every attempt with its costs. `decidable`: those of them that decisions rest on.
    """

    cards: tuple[Scorecard, ...]
    decisions: tuple[Decision, ...]
    quotes: dict[str, Quote]
    trials: tuple[TrialNumbers, ...]
    decidable: tuple[TrialNumbers, ...]


def conclude(campaign: CampaignData) -> Conclusions:
    """Scorecards and decisions of a campaign; criteria are those that each trial was planned with."""
    day = campaign.written_at.date()
    trials = priced(campaign_numbers(campaign), campaign.providers, day, epoch_tokens=epoch_tokens(campaign), purchase=campaign.purchase)
    specs = [d.trial for d in campaign.documents] or list(campaign.planned)
    cards = scorecards(
        trials,
        acceptance={t.workload.name: t.workload.acceptance for t in specs},
        providers=campaign.providers,
        primaries={t.workload.name: primary_of(campaign.workloads.get(t.workload.name, t.workload)) for t in specs},
    )
    # A decision about real money rests on measured numbers alone; where all is simulated it is a rehearsal's.
    measured = tuple(t for t in trials if not _simulated(campaign, t.provider)) or trials
    known = {(t.kind, t.workload) for t in measured}
    decisions = []
    for team in campaign.teams.values():
        for kind in ("training", "inference"):
            preference = team.training if kind == "training" else team.inference
            if preference is not None and any((kind, w) in known for w in preference.workloads):
                decisions.append(decide(team.name, kind, preference, measured))
    names = sorted({c.provider for c in cards})
    quotes = {n: quote(campaign.providers[n], day, campaign.purchase) for n in names if n in campaign.providers}
    return Conclusions(cards, tuple(decisions), quotes, trials, measured)


def _simulated(campaign: CampaignData, provider: str) -> bool:
    found = campaign.providers.get(provider)
    return found is not None and found.simulated
