"""Where prices are learnt from: one file for each kind of source, and all sources of a provider asked at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from plumbline.declarations import Declarations, Provider, places
from plumbline.declarations.price_sources import ContractSource, CsvSource, DeclaredSource, GpuhuntSource
from plumbline.prices.reading import Reading
from plumbline.prices.sources.contract import ContractPrices
from plumbline.prices.sources.csv_history import CsvPrices
from plumbline.prices.sources.errors import NoPrice, PriceSourceDown, PriceSourceError
from plumbline.prices.sources.gpuhunt import GpuhuntPrices
from plumbline.prices.sources.opencost import OpencostPrices
from plumbline.prices.sources.simulated import SimulatedPrices
from plumbline.prices.sources.source import PriceSource

__all__ = ["NoPrice", "PriceSource", "PriceSourceDown", "PriceSourceError", "Told", "ask", "source_of"]


@dataclass(frozen=True)
class Told:
    """What all sources of one provider said; a source that failed is in `failures` and keeps none of the others from being heard."""

    readings: tuple[Reading, ...]
    failures: tuple[PriceSourceError, ...]


def source_of(declared: DeclaredSource, world: Declarations, config: Path | None = None) -> PriceSource:
    """The source that a provider's declaration names; relative files are below `config` (default: the installation's)."""
    if isinstance(declared, GpuhuntSource):
        return GpuhuntPrices(declared)
    if isinstance(declared, ContractSource):
        return ContractPrices(world.contracts[declared.contract])
    if isinstance(declared, CsvSource):
        return CsvPrices((config or places().config) / declared.file, declared.max_age)
    return OpencostPrices(declared)


def ask(provider: Provider, world: Declarations, at: datetime, config: Path | None = None) -> Told:
    """What every declared source of the provider says at `at` (UTC), in the order of the declaration; of a simulated one also itself."""
    readings: list[Reading] = []
    failures: list[PriceSourceError] = []
    simulated = [SimulatedPrices()] if provider.simulated else []
    for source in (*simulated, *(source_of(declared, world, config) for declared in provider.price_sources)):
        try:
            readings += source.read(provider, at)
        except PriceSourceError as error:
            failures.append(error)
    return Told(tuple(readings), tuple(failures))
