"""The price book: which declared price of a provider holds on a day, and the reason when none does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from plumbline.declarations import Price, Provider
from plumbline.declarations.provider import Purchase


@dataclass(frozen=True)
class Basis:
    """What a cost rests on; every figure in USD that is shown to a person carries one."""

    purchase: Purchase
    usd_per_hour: float
    since: date
    source: str

    def __str__(self) -> str:
        return f"{self.purchase}, {self.usd_per_hour:.10g} USD/h since {self.since.isoformat()}, source: {self.source}"


@dataclass(frozen=True)
class Quote:
    """A provider's price on a day, or why there is none: exactly one of the two is set."""

    basis: Basis | None
    reason: str | None


def price_of(provider: Provider, on: date, purchase: Purchase = "on_demand") -> Price | None:
    """The declared price of the whole instance that holds on the day `on`; None if none does.

    A price holds from `since` (included) until `until` (excluded). Declarations reject overlaps, so at most one holds.
    """
    return next(
        (p for p in provider.price_list if p.purchase == purchase and p.since <= on and (p.until is None or on < p.until)),
        None,
    )


def quote(provider: Provider, on: date, purchase: Purchase = "on_demand") -> Quote:
    """Like `price_of`, with the reason in words when no price holds: a cost that is unknown must never look like a cost of nothing."""
    price = price_of(provider, on, purchase)
    if price is not None:
        return Quote(Basis(price.purchase, price.price, price.since, price.source), None)
    declared = sorted((p for p in provider.price_list if p.purchase == purchase), key=lambda p: p.since)
    if not provider.price_list:
        return Quote(None, f"no price is declared for {provider.name}")
    if not declared:
        others = ", ".join(sorted({p.purchase for p in provider.price_list}))
        return Quote(None, f"no {purchase} price is declared for {provider.name} (declared: {others})")
    spans = ", ".join(f"{p.since.isoformat()} to {p.until.isoformat() if p.until else 'open'}" for p in declared)
    return Quote(None, f"no {purchase} price of {provider.name} holds on {on.isoformat()} (declared: {spans})")
