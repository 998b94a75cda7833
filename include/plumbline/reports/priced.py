"""A provider with the prices that its costs are reckoned with: what was accepted goes before what is declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Price, Provider
from plumbline.declarations.simulation import PriceChange, SimulatedLauncher

if TYPE_CHECKING:
    from plumbline.archive import Archive, PriceView


def at_accepted_prices(archive: Archive, provider: Provider) -> Provider:
    """The provider with what was accepted before what is declared in its price list, each until something newer is declared: costs follow.

    A simulated provider keeps its own list: what its declared changes make of the price is what it costs.
    """
    return provider if provider.simulated else _with(provider, archive.prices(provider.name))


def all_at_accepted_prices(archive: Archive, providers: Iterable[Provider]) -> dict[str, Provider]:
    """The same for several, by name, however many they are in one question to the archive."""
    found = {p.name: p for p in providers}
    held: dict[str, list[PriceView]] = {name: [] for name in found}
    for price in archive.prices(list(found)):
        held[price.provider].append(price)
    return {name: p if p.simulated else _with(p, held[name]) for name, p in found.items()}


def _with(provider: Provider, accepted: Iterable[PriceView]) -> Provider:
    own: list[Price] = []
    for held in sorted(accepted, key=lambda p: p.since, reverse=True):
        newer = [p.since for p in provider.prices if p.purchase == held.purchase and p.since > held.since]
        until = min((day for day in (held.until, *newer) if day is not None), default=None)
        if held.term is None and until != held.since:
            of: Any = {"purchase": held.purchase, "price": held.usd_per_hour, "since": held.since, "until": until, "source": held.source}
            own.append(Price.model_construct(None, **of))
    return provider.model_copy(update={"prices": (*own, *provider.prices)})


def at_factor(provider: Provider, factor: float) -> Provider:
    """The provider with every price of its list multiplied by `factor`, above 0; of a simulated one, what its declared changes make of it too."""
    if factor <= 0:
        raise ValueError(f"{provider.name}'s prices cannot be multiplied by {factor:g}; expected a factor above 0")
    prices = tuple(price.model_copy(update={"price": price.price * factor}) for price in provider.prices)
    launcher = provider.launcher
    if isinstance(launcher, SimulatedLauncher):
        drift = tuple(e.model_copy(update={"price": e.price * factor}) if isinstance(e, PriceChange) else e for e in launcher.drift)
        launcher = launcher.model_copy(update={"drift": drift})
    return provider.model_copy(update={"prices": prices, "launcher": launcher})
