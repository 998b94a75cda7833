"""The newest acceptance of each provider, judged once for all pages that name its nodes: it is of hundreds of documents."""

from __future__ import annotations

from plumbline.archive import Archive
from plumbline.dashboard.site import Site
from plumbline.presentation.acceptances import DeliveryView
from plumbline.workflows.acceptances import delivery


def cached_delivery(
    site: Site, archive: Archive, money: bool, provider: str, waits: bool, campaign_id: str | None = None
) -> tuple[DeliveryView | None] | None:
    """The newest delivery, or that of a campaign, None in it for a provider without an acceptance; None where it is not cached and the caller does not wait."""
    known, today = site.declared.now(), site.pages.now().date()
    key = ("acceptance", money, provider, campaign_id)
    return site.choices.get_if(
        waits, archive, known, today, key, lambda: (delivery(archive, site.declared.now(money), provider, campaign_id),)
    )
