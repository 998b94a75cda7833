"""What a campaign's bills are made of, from the archive: its documents, the providers at their accepted prices, how long evidence is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from plumbline.declarations import Declarations, Provider
from plumbline.declarations.purchases import Purchase
from plumbline.prices.bill import Bill
from plumbline.reports.bills import Attempt, ProviderCost, campaign_bills, provider_costs
from plumbline.reports.priced import all_at_accepted_prices
from plumbline.results import ResultDocument

if TYPE_CHECKING:
    from plumbline.archive import Archive


@dataclass(frozen=True)
class Paid:
    """One campaign. `rejected`: attempts that the quality checks rejected. `kept_s`: how long evidence is kept, None for ever."""

    campaign_id: str
    documents: tuple[ResultDocument, ...]
    providers: dict[str, Provider]
    rejected: frozenset[Attempt]
    kept_s: float | None

    def bills(self, on: date | None = None, purchase: Purchase = "on_demand") -> dict[str, Bill]:
        """The bill of each trial; see `campaign_bills`."""
        return campaign_bills(self.documents, self.providers, on, purchase, kept_s=self.kept_s, rejected=self.rejected)

    def by_provider(self, on: date | None = None, purchase: Purchase = "on_demand") -> tuple[ProviderCost, ...]:
        """What each provider cost; see `provider_costs`."""
        return provider_costs(self.documents, self.providers, on, purchase, kept_s=self.kept_s, rejected=self.rejected)


def paid(archive: Archive, declared: Declarations, campaign_id: str) -> Paid:
    """Everything that the campaign's bills say. LookupError if the archive has no trial of it that was run here."""
    # A correction is the same run in other words: both on one bill would be paid for twice.
    trials = [t for t in archive.trials(campaign_id) if t.source != "imported" and not t.corrected]
    if not trials:
        raise LookupError(f'the archive has no trial of campaign "{campaign_id}" that could have a bill; `plumbline campaigns` lists them')
    documents = tuple(d for t in trials if (d := archive.document(t.trial_id, t.attempt)) is not None)
    providers = {d.trial.provider.name: d.trial.provider for d in documents}
    return Paid(
        campaign_id=campaign_id,
        documents=documents,
        # As they were when they were measured, if a provider is gone from the declarations by now.
        providers=all_at_accepted_prices(archive, (declared.providers.get(name, p) for name, p in providers.items())),
        rejected=frozenset((t.trial_id, t.attempt) for t in trials if t.quality_action == "reject"),
        kept_s=declared.upkeep.evidence.keep,
    )
