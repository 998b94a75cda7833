"""Read a campaign from the archive as its bill."""

from __future__ import annotations

from plumbline.analysis.cost.campaign_bill import CampaignBill
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.archive import Archive
from plumbline.declarations import Declarations


def campaign_bill(archive: Archive, declared: Declarations, campaign_id: str) -> CampaignBill:
    """LookupError if the archive has no trial of the campaign that ran here."""
    # A correction is the same run: the bill must not count it twice.
    trials = [t for t in archive.trials(campaign_id) if t.source != "imported" and not t.corrected]
    if not trials:
        raise LookupError(f'the archive has no billable trial of campaign "{campaign_id}"; `plumbline campaigns` lists the campaigns')
    documents = tuple(d for t in trials if (d := archive.document(t.trial_id, t.attempt)) is not None)
    providers = {d.trial.provider.name: d.trial.provider for d in documents}
    return CampaignBill(
        campaign_id=campaign_id,
        documents=documents,
        # Providers that are not declared any more: as they were when measured.
        providers=all_with_effective_prices(
            (declared.providers.get(name, p) for name, p in providers.items()), archive.prices(sorted(providers))
        ),
        rejected=frozenset((t.trial_id, t.attempt) for t in trials if t.quality_action == "reject"),
        retention_s=declared.upkeep.evidence.keep,
    )
