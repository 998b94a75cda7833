"""Read a campaign from the archive as its bill."""

from __future__ import annotations

from plumbline.analysis.cost.campaign_bill import CampaignBill
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.archive import Archive
from plumbline.declarations import Declarations


def campaign_bill(archive: Archive, declared: Declarations, campaign_id: str) -> CampaignBill:
    """Everything that the campaign's bills say. LookupError if the archive has no trial of it that was run here."""
    # A correction is the same run in other words: both on one bill would be paid for twice.
    trials = [t for t in archive.trials(campaign_id) if t.source != "imported" and not t.corrected]
    if not trials:
        raise LookupError(f'the archive has no trial of campaign "{campaign_id}" that could have a bill; `plumbline campaigns` lists them')
    documents = tuple(d for t in trials if (d := archive.document(t.trial_id, t.attempt)) is not None)
    providers = {d.trial.provider.name: d.trial.provider for d in documents}
    return CampaignBill(
        campaign_id=campaign_id,
        documents=documents,
        # As they were when they were measured, if a provider is gone from the declarations by now.
        providers=all_with_effective_prices(
            (declared.providers.get(name, p) for name, p in providers.items()), archive.prices(sorted(providers))
        ),
        rejected=frozenset((t.trial_id, t.attempt) for t in trials if t.quality_action == "reject"),
        retention_s=declared.upkeep.evidence.keep,
    )
