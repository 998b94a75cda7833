"""Prices that are declared: contracts, and simulated providers."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

from plumbline.declarations import Contract, Provider
from plumbline.declarations.providers.rates import ListedPurchase
from plumbline.price_sources.base import NoPrice
from plumbline.results.price_reading import Reading


class ContractPrices:
    """The prices of one contract that hold on the day."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """One reading for each purchase and term. Raises NoPrice on a day on which no price of the contract holds."""
        holding = self._contract.on(at.date())
        if not holding:
            spans = ", ".join(f"{p.since} to {p.until or 'open'}" for p in sorted(self._contract.prices, key=lambda p: p.since))
            raise NoPrice(
                "contract",
                provider.name,
                f"no price of {self._contract.name} holds on {at.date()} (declared: {spans})",
                f"add the renewed price to include/config/contracts/{self._contract.name}.yaml, or remove the source from the provider",
            )
        return [
            Reading(
                provider=provider.name,
                purchase=price.purchase,
                term=price.term,
                source="contract",
                source_version=self._contract.source + (f", rate of {price.rate_on}" if price.rate_on is not None else ""),
                observed_at=at,
                amount=price.price.amount,
                currency=price.price.currency,
                per=price.price.per,
                gpus=provider.accelerator.count,
                usd_per_unit=price.usd_per_unit,
            )
            for price in holding
        ]


class SimulatedPrices:
    """The price list of a simulated provider."""

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """One reading for each purchase with a price that holds on the day; none where nothing is declared."""
        count = provider.accelerator.count
        prices = ((purchase, provider.price_on(at.date(), purchase)) for purchase in get_args(ListedPurchase))
        return [
            Reading(provider.name, purchase, None, "simulated", price.source, at, price.price, "USD", "instance_hour", count)
            for purchase, price in prices
            if price is not None
        ]
