"""Read current prices: all declared sources of a provider at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name

from plumbline.declarations import Declarations, Provider, installation_paths
from plumbline.declarations.providers.provider import DeclaredSource
from plumbline.price_sources.base import NoPrice, PriceSource, PriceSourceDown, PriceSourceError
from plumbline.price_sources.declared import SimulatedPrices
from plumbline.results.price_reading import Reading


@dataclass(frozen=True)
class PriceReport:
    """Readings of all sources of one provider; a source that failed, for one purchase or all, is in `failures`."""

    readings: tuple[Reading, ...]
    failures: tuple[PriceSourceError, ...]


def price_source(declared: DeclaredSource, world: Declarations, config: Path | None = None) -> PriceSource:
    """The source that a provider's declaration names; relative files are below `config` (default: the installation's)."""
    known = declared.made_with(world.contracts, config or installation_paths().config)
    source: PriceSource = resolve_name(declared.implementation)(*known)
    return source


def read_prices(provider: Provider, world: Declarations, at: datetime, config: Path | None = None) -> PriceReport:
    """Readings of every declared source of the provider at `at` (UTC), in the order of the declaration; of a simulated one also itself."""
    readings: list[Reading] = []
    failures: list[PriceSourceError] = []
    simulated = [SimulatedPrices()] if provider.simulated else []
    for source in (*simulated, *(price_source(declared, world, config) for declared in provider.price_sources)):
        try:
            readings += source.read(provider, at)
        except PriceSourceError as error:
            readings += error.readings if isinstance(error, NoPrice) else ()
            failures.append(error)
    return PriceReport(tuple(readings), tuple(failures))
