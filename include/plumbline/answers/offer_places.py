"""One workload in the places where it was measured: offers by region or zone, and latencies by the place of the client or of the data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from plumbline.analysis.places import PlaceMatrix, matrices, place_of
from plumbline.analysis.prices.book import quote
from plumbline.analysis.scorecards.scorecard import Row, Scorecard, primary_of, scorecards
from plumbline.answers.current_results import current_results
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider
from plumbline.metrics import leading_names
from plumbline.metrics.units import Amount

Offer = tuple[str, str, str, int]
"""Cloud, instance type, accelerator (its product, else its kind) and how many of it."""


@dataclass(frozen=True)
class PlacedOffer:
    """An offer at one place, as a declared provider. `usd_per_hour`: None if not known; `number`: the workload's leading one, None where it was not measured."""

    provider: str
    place: str
    usd_per_hour: Amount | None
    number: Row | None
    simulated: bool


@dataclass(frozen=True)
class WorkloadPlaces:
    """`offers`: those at two places or more; `single`: offers at one. `clients`: the matrix by client or data, None where it has no two to compare."""

    workload: str
    offers: Mapping[Offer, tuple[PlacedOffer, ...]]
    single: int
    clients: PlaceMatrix | None


def workload_places(archive: Archive, declared: Declarations, on: date, workload: str) -> WorkloadPlaces:
    """Of one workload, at today's prices."""
    now = current_results(archive, declared, on, workloads=[workload])
    cards = {
        card.provider: card
        for card in scorecards(now.trials, providers=now.providers, primaries={w.name: primary_of(w) for w in now.workloads.values()})
    }
    first = next((card.primary for card in cards.values() if card.primary is not None), None) or _usual(cards.values())
    offers: dict[Offer, list[PlacedOffer]] = defaultdict(list)
    for name, provider in sorted({**declared.providers, **now.providers}.items()):
        basis = quote(provider, on).basis
        price = None if basis is None else basis.usd_per_hour
        offers[_offer(provider)].append(
            PlacedOffer(name, _place(provider), price, _leading(cards[name], first) if name in cards else None, name in now.simulated)
        )
    several = {offer: tuple(found) for offer, found in sorted(offers.items()) if len({each.place for each in found}) > 1}
    found = next(iter(matrices(now.trials, lambda t: place_of(now.workloads[t.workload], now.providers[t.provider]))), None)
    # A client beside each server gives a diagonal: nothing to compare.
    apart = found is not None and len(found.cells) > max(len(found.rows), len(found.columns))
    return WorkloadPlaces(workload, several, len(offers) - len(several), found if apart else None)


def _usual(cards: Iterable[Scorecard]) -> Row | None:
    """What leads for the kind, where no provider measured the workload's primary number."""
    rows = (card.row(name) for card in cards for name in leading_names(card.kind))
    return next((row for row in rows if row is not None and row.value is not None), None)


def _leading(card: Scorecard, first: Row | None) -> Row | None:
    row = None if first is None else card.row(first.metric, first.statistic, first.phase)
    return row if row is not None and row.value is not None else None


def _offer(provider: Provider) -> Offer:
    accelerator = provider.accelerator
    return provider.cloud, provider.instance_type, accelerator.product or accelerator.kind, accelerator.count


def _place(provider: Provider) -> str:
    return provider.zone or provider.region
