"""Offers by place as a matrix: the workload's leading number at each, how far it is from the offer's best place, and the price there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.scorecards.scorecard import Row
from plumbline.answers.offer_places import Offer, PlacedOffer, WorkloadPlaces
from plumbline.metrics.formatting import common_scale, format_money, format_name, format_percent
from plumbline.metrics.pooling import Estimate
from plumbline.metrics.units import Amount
from plumbline.presentation.places import PlaceTable, place_tables

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class PlacedCell:
    """A provider at a place. `number`: null where the workload was not measured; `distance`: from the best
    place of the offer in words. `usd_per_hour`: null if it is not known, or not shown to this reader."""

    provider: str
    place: str
    number: Row | None
    text: str
    interval: str
    distance: str
    usd_per_hour: Amount | None
    price: str
    simulated: bool


@dataclass(frozen=True)
class OfferRow:
    """An offer of a cloud. `cells`: under the places of the view, each with its providers there, empty where it has none."""

    offer: str
    cells: tuple[tuple[PlacedCell, ...], ...]


@dataclass(frozen=True)
class PlacesView:
    """`metric`: the number of the cells, empty if the workload was measured nowhere. `places`: the columns. `single`: offers at one place only.
    `clients`: round trips, first tokens or reads by the place of client or data; null where there is no matrix."""

    workload: str
    metric: str
    better: str
    places: tuple[str, ...]
    offers: tuple[OfferRow, ...]
    single: int
    clients: PlaceTable | None


def places_view(found: WorkloadPlaces) -> PlacesView:
    placed = [each for own in found.offers.values() for each in own]
    primary = next((each.number for each in placed if each.number is not None), None)
    places = tuple(dict.fromkeys(each.place for each in sorted(placed, key=lambda each: each.place)))
    clients = place_tables([found.clients]) if found.clients is not None else ()
    lower = primary is not None and primary.direction == "lower_is_better"
    return PlacesView(
        workload=found.workload,
        metric="" if primary is None else format_name(primary.metric),
        better="" if primary is None else "lower is better" if lower else "higher is better",
        places=places,
        offers=tuple(_row(offer, own, places, lower) for offer, own in found.offers.items()),
        single=found.single,
        clients=next(iter(clients), None),
    )


def _row(offer: Offer, own: Sequence[PlacedOffer], places: Sequence[str], lower: bool) -> OfferRow:
    cloud, instance, accelerator, count = offer
    measured = [row for each in own if (row := each.number) is not None]
    values = [row.value for row in measured if row.value is not None]
    best = (min if lower else max)(measured, key=lambda row: row.value or 0.0, default=None)
    scale = common_scale(measured[0].unit, values, measured[0].metric) if measured else None

    def cell(each: PlacedOffer) -> PlacedCell:
        row = each.number
        return PlacedCell(
            provider=each.provider,
            place=each.place,
            number=row,
            text=scale.text(row.value) if row is not None and scale is not None else NOT_MEASURED,
            interval=scale.interval(row.low, row.high) if row is not None and scale is not None else "",
            distance=_distance(row, best) if len(measured) > 1 else "",
            usd_per_hour=each.usd_per_hour,
            price="" if each.usd_per_hour is None else format_money(each.usd_per_hour, "USD/h"),
            simulated=each.simulated,
        )

    cells = tuple(tuple(cell(each) for each in own if each.place == place) for place in places)
    return OfferRow(f"{cloud} · {instance} · {count} × {accelerator}", cells)


def _distance(row: Estimate | None, best: Estimate | None) -> str:
    """Like the best where the intervals overlap: a difference is said only where it is shown."""
    if row is None or best is None or row.value is None or not best.value:
        return ""
    if row is best:
        return "best place"
    ends = (row.low, row.high, best.low, best.high)
    if None in ends:
        return f"{format_percent(abs(row.value / best.value - 1), 1)} from the best"
    overlap = (row.low or 0.0) <= (best.high or 0.0) and (best.low or 0.0) <= (row.high or 0.0)
    return "like the best" if overlap else f"{format_percent(abs(row.value / best.value - 1), 1)} from the best"
