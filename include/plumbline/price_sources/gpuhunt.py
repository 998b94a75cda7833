"""List and spot prices of public clouds from gpuhunt's catalog: the one offer of each purchase that is the provider's."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from plumbline.declarations import Provider
from plumbline.declarations.devices import part_of_card
from plumbline.declarations.providers.provider import GpuhuntSource
from plumbline.declarations.providers.rates import ListedPurchase
from plumbline.formats.reading.foreign_number import ForeignNumber, number
from plumbline.price_sources.base import MOST_USD_PER_GPU_HOUR, NoPrice, typical_range
from plumbline.price_sources.gpuhunt_catalog import CloudCatalog, load_cloud
from plumbline.results.price_reading import Reading

if TYPE_CHECKING:
    from gpuhunt import CatalogItem

# Where providers' declarations and gpuhunt call a cloud differently.
_CLOUD_NAMES = {"oracle": "oci", "lambda": "lambdalabs", "datacrunch": "verda", "vast": "vastai", "vast-ai": "vastai"}
_MARKETPLACES = ("lium", "vastai")  # their instance names are numbers of single offers
_NOT_FOR_SALE = ("dws", "preview")  # parts of flags: capacity for fixed dates is neither on demand nor spot, a preview has no price yet
_DECLARE = "declare what you pay: `prices`, a contract or a csv"


class GpuhuntPrices:
    """One provider's entries of the catalog. `timeout_s`: how long each answer of the download may take."""

    def __init__(self, declared: GpuhuntSource, timeout_s: float = 20.0) -> None:
        self._declared = declared
        self._timeout_s = timeout_s

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """The on-demand and the spot price of the provider's instance type, where the catalog has them, in USD for the whole instance,
        observed on the catalog's own date.

        Raises PriceSourceDown without the package or its catalog; NoPrice for an unknown cloud, a marketplace, an instance type that is not
        listed there, another number of GPUs than declared, a part of one, no price above 0, or several prices of which none is known to be the provider's.
        """
        cloud = self._declared.cloud or _CLOUD_NAMES.get(provider.cloud, provider.cloud)
        instance_type = self._declared.instance_type or provider.instance_type
        if cloud in _MARKETPLACES:
            why = f"{cloud} is a marketplace: its catalog lists single offers by number, each with its own price, and no instance type"
            raise NoPrice("gpuhunt", provider.name, why, _DECLARE)
        if part := part_of_card(provider.accelerator.product):
            raise NoPrice("gpuhunt", provider.name, f"accelerator.product is {part}, and catalogs count whole GPUs", _DECLARE)
        catalog = load_cloud(cloud, provider.name, self._declared.catalog, at, self._timeout_s)
        listed = [i for i in catalog.items if i.instance_name.lower() == instance_type.lower()]
        items = [i for i in listed if _for_sale(i)]
        here = [self._in_location([i for i in items if i.spot is spot], provider) for spot in (False, True)]
        if not any(here):
            raise self._not_listed(provider, cloud, instance_type, catalog, listed, items)
        count = provider.accelerator.count
        sized = [offers for offers in here if any(_units(i, provider) == count for i in offers)]  # spot may be sold in other sizes
        readings, failures = [], []
        for offers in sized or filter(None, here):
            try:
                readings.append(self._reading(provider, catalog, offers, items))
            except NoPrice as error:
                failures.append(error)
        if failures:
            why = "; ".join(dict.fromkeys(failure.why for failure in failures))
            remedy = "; ".join(dict.fromkeys(failure.remedy for failure in failures))
            raise NoPrice("gpuhunt", provider.name, why, remedy, readings)
        return readings

    def _not_listed(
        self, provider: Provider, cloud: str, instance_type: str, catalog: CloudCatalog, listed: list[CatalogItem], items: list[CatalogItem]
    ) -> NoPrice:
        remedy = "name it as gpuhunt does: cloud, location, instance_type in price_sources"
        if items:
            elsewhere = ", ".join(sorted({i.location for i in items})[:8])
            place = self._declared.location or provider.zone or provider.region
            why = f"catalog {catalog.version} of {cloud} lists {instance_type} in {elsewhere}, not in {place}"
        elif listed:
            why, remedy = f"catalog {catalog.version} of {cloud} lists {instance_type} only as a preview or for fixed dates", _DECLARE
        else:
            skipped = f" ({catalog.skipped})" if catalog.skipped else ""
            why = f"catalog {catalog.version} of {cloud} does not list {instance_type}{skipped}"
            names = sorted({i.instance_name for i in catalog.items})
            close = get_close_matches(instance_type, names, 3) or [n for n in names if instance_type.lower() in n.lower()][:3]
            remedy += f" (it lists {', '.join(close)})" if close else ""
        return NoPrice("gpuhunt", provider.name, why, remedy)

    def _in_location(self, items: list[CatalogItem], provider: Provider) -> list[CatalogItem]:
        """The entries of the zone, or else of the region as a whole, or else, where no zone is declared, of all its zones."""
        declared = self._declared.location
        region = (declared or provider.region).lower()
        for place in ((declared or provider.zone or region).lower(), region):
            if exact := [i for i in items if i.location.lower() == place]:
                return exact
        return [] if provider.zone is not None and declared is None else [i for i in items if _is_zone(i.location.lower(), region)]

    def _reading(self, provider: Provider, catalog: CloudCatalog, offers: list[CatalogItem], everywhere: list[CatalogItem]) -> Reading:
        """The price of one purchase. `offers`: the instance type's entries in the provider's place; `everywhere`: in every place."""

        def no_price(why: str, remedy: str) -> NoPrice:
            return NoPrice("gpuhunt", provider.name, f"catalog {catalog.version} {why}", remedy)

        name, purchase = offers[0].instance_name, "spot" if offers[0].spot else "on-demand"
        count = provider.accelerator.count
        alike = [i for i in offers if _units(i, provider) == count]  # RunPod sells one name with 1, 2, 4 and 8 GPUs
        if not alike:
            counts = " or ".join(map(str, sorted({_units(i, provider) for i in offers})))
            elsewhere = sorted({i.location for i in everywhere if _units(i, provider) == count})
            remedy = "correct accelerator.count, or instance_type in price_sources"
            if elsewhere:
                remedy = f"it gives {count} in {elsewhere[0]}, so the entry may be wrong: {_DECLARE}; or {remedy}"
            raise no_price(f"gives {name} {counts} accelerators, the provider declares {count}", remedy)
        priced = [i for i in alike if _possible(i.price, count)]
        if not priced:
            raise no_price(
                f"lists {name} at {alike[0].price} USD/h, which is no {purchase} price", f"wait for the next catalog, or {_DECLARE}"
            )
        # A flagged twin is another product, such as the instance in a cluster with a faster network.
        offered = [i for i in priced if not i.flags] or priced
        if len({i.price for i in offered}) > 1:
            places = sorted({(i.location, i.price) for i in offered})
            where = ", ".join(f"{price:g} USD/h in {location}" for location, price in places[:4])
            remedy = f"it does not say which of them is yours: {_DECLARE}"
            if len({i.location for i in offered}) > 1:
                remedy = "declare the provider's zone, or location in price_sources"
            raise no_price(f"lists {len({i.price for i in offered})} {purchase} prices: {where}", remedy)
        item = offered[0]
        twins = [
            other
            for other in (catalog.alike(item.gpu_name) if item.gpu_name else ())
            if (other.gpu_memory, other.spot, other.gpu_count) == (item.gpu_memory, item.spot, count) and _for_sale(other)
        ]
        own = [other for other in twins if (other.provider, other.instance_name) == (item.provider, item.instance_name)]
        typical = typical_range(
            item.price / count,
            (other.price / count for other in twins if other not in own),
            (other.price / count for other in own if other.location != item.location),
        )
        bought: ListedPurchase = "spot" if item.spot else "on_demand"
        version, observed_at = catalog.version, catalog.observed_at
        return Reading(
            provider.name, bought, None, "gpuhunt", version, observed_at, item.price, "USD", "instance_hour", count, typical=typical
        )


def _for_sale(item: CatalogItem) -> bool:
    fixed_dates = item.provider_data.get("is_dws_calendar_mode")
    return not fixed_dates and not any(part in flag for flag in item.flags for part in _NOT_FOR_SALE)


def _possible(price: float, count: int) -> bool:
    try:
        number(price, least=0.0, most=MOST_USD_PER_GPU_HOUR * max(count, 1), above=True)
    except ForeignNumber:
        return False
    return True


def _units(item: CatalogItem, provider: Provider) -> int:
    return int(item.cpu if provider.accelerator.kind == "cpu" else item.gpu_count)


def _is_zone(location: str, region: str) -> bool:
    """Whether a location, such as us-central1-a or us-east-1a, is a zone of the region."""
    zone = location.removeprefix(region)
    return zone != location and (zone.startswith("-") or (len(zone) == 1 and zone.isalpha()))
