"""What a simulated provider would tell: its declared prices with the changes that its `drift` declares."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

from plumbline.declarations import Provider
from plumbline.declarations.purchases import Purchase
from plumbline.prices.book import price_of
from plumbline.prices.reading import Reading


class SimulatedPrices:
    """The price list of a provider that has no machine behind it, told as a source of a real one tells its own."""

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """One reading for each purchase with a price that holds on the day; none where nothing is declared."""
        found = ((purchase, price_of(provider, at.date(), purchase)) for purchase in get_args(Purchase))
        return [
            Reading(
                provider=provider.name,
                purchase=purchase,
                term=None,
                source="simulated",
                source_version=price.source,
                observed_at=at,
                amount=price.price,
                currency="USD",
                per="instance_hour",
                gpus=provider.accelerator.count,
            )
            for purchase, price in found
            if price is not None
        ]
