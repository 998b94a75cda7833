"""Read current prices: all declared sources of a provider at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name

from plumbline.declarations import Declarations, Provider, installation_paths
from plumbline.declarations.providers.provider import ContractSource, CsvSource, DeclaredSource, GpuhuntSource, OpencostSource
from plumbline.price_sources.base import NoPrice, PriceSource, PriceSourceDown, PriceSourceError
from plumbline.price_sources.csv_history import CsvPrices
from plumbline.price_sources.declared import ContractPrices, SimulatedPrices
from plumbline.price_sources.gpuhunt import GpuhuntPrices
from plumbline.price_sources.opencost import OpencostPrices
from plumbline.results.price_reading import Reading


@dataclass(frozen=True)
class PriceReport:
    """Readings of all sources of one provider; a source that failed, for one purchase or all, is in `failures`."""

    readings: tuple[Reading, ...]
    failures: tuple[PriceSourceError, ...]


def price_source(declared: DeclaredSource, world: Declarations, config: Path | None = None) -> PriceSource:
    """The source that a provider's declaration names; relative files are below `config` (default: the installation's)."""
    if isinstance(declared, GpuhuntSource):
        return GpuhuntPrices(declared)
    if isinstance(declared, ContractSource):
        return ContractPrices(world.contracts[declared.contract])
    if isinstance(declared, CsvSource):
        return CsvPrices((config or installation_paths().config) / declared.file, declared.max_age)
    if isinstance(declared, OpencostSource):
        return OpencostPrices(declared)
    source: PriceSource = resolve_name(declared.implementation)(declared)
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
