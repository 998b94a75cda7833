"""List and spot prices of public clouds from gpuhunt's catalog: the newest, one version for ever, or a folder of its files.

`GPUHUNT_CATALOG_DIR` names the folder (`aws.csv`, `gcp.csv`, … and, if somebody wrote it, `version`): then nothing is downloaded.
"""

from __future__ import annotations

import csv
import hashlib
import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from plumbline.declarations import Provider
from plumbline.declarations.providers import GpuhuntSource
from plumbline.declarations.providers.rates import Purchase
from plumbline.price_sources.base import NoPrice, PriceSourceDown
from plumbline.results.price_reading import Reading

if TYPE_CHECKING:
    from gpuhunt import Catalog, CatalogItem

_CLOUD_NAMES = {"oracle": "oci", "lambda": "lambdalabs"}  # where providers' declarations and gpuhunt call a cloud differently
_BOOKED_AHEAD = "gcp-dws-calendar-mode"  # capacity for fixed dates: neither on demand nor spot
_DOWNLOAD_REMEDY = "check that this machine can download the catalog, or point GPUHUNT_CATALOG_DIR to a folder with it"


class GpuhuntPrices:
    """One provider's entries of the catalog. `timeout_s`: how long each answer of the download may take."""

    def __init__(self, declared: GpuhuntSource, timeout_s: float = 20.0) -> None:
        self._declared = declared
        self._timeout_s = timeout_s

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """The on-demand and the spot price of the provider's instance type, where the catalog has them, in USD for the whole instance.

        Raises PriceSourceDown without the package or its catalog; NoPrice for an unknown cloud, an instance type that is not listed
        there, another number of GPUs than declared, or zones that differ in price while the provider declares none.
        """
        cloud = self._declared.cloud or _CLOUD_NAMES.get(provider.cloud, provider.cloud)
        instance_type = self._declared.instance_type or provider.instance_type
        listed, catalog = self._catalogue_items(cloud, provider)
        items = [i for i in listed if i.instance_name.lower() == instance_type.lower() and _BOOKED_AHEAD not in i.flags]
        here = self._in_location(items, provider)
        if not here:
            elsewhere = ", ".join(sorted({i.location for i in items})[:8])
            why = f"catalog {catalog} of {cloud} lists {instance_type} in {elsewhere}, not in {self._zone_or_location(provider)}"
            if not items:
                why = f"catalog {catalog} of {cloud} does not list {instance_type}"
            raise NoPrice("gpuhunt", provider.name, why, "name it as gpuhunt does: cloud, location, instance_type in price_sources")
        return [self._reading(provider, catalog, offers, at) for spot in (False, True) if (offers := [i for i in here if i.spot is spot])]

    def _zone_or_location(self, provider: Provider) -> str:
        return self._declared.location or provider.zone or provider.region

    def _in_location(self, items: list[CatalogItem], provider: Provider) -> list[CatalogItem]:
        """The entries of the zone, or else of the region as a whole, or else, where no zone is declared, of all its zones."""
        zone_or_location = self._zone_or_location(provider).lower()
        region = (self._declared.location or provider.region).lower()
        for place in (zone_or_location, region):
            if exact := [i for i in items if i.location.lower() == place]:
                return exact
        if provider.zone is not None or self._declared.location is not None:
            return []
        return [i for i in items if i.location.lower().startswith(f"{region}-")]

    def _reading(self, provider: Provider, catalog: str, items: list[CatalogItem], at: datetime) -> Reading:
        purchase: Purchase = "spot" if items[0].spot else "on_demand"
        count = provider.accelerator.count
        units = {id(i): i.cpu if provider.accelerator.kind == "cpu" else i.gpu_count for i in items}
        alike = [i for i in items if units[id(i)] == count]  # RunPod sells one name with 1, 2, 4 and 8 GPUs
        if not alike:
            counts = " or ".join(map(str, sorted(set(units.values()))))
            why = f"catalog {catalog} gives {items[0].instance_name} {counts} accelerators, the provider declares {count}"
            raise NoPrice("gpuhunt", provider.name, why, "correct accelerator.count, or instance_type in price_sources")
        prices = sorted({item.price for item in alike})
        if len(prices) > 1:
            where = ", ".join(f"{i.price:g} USD/h in {i.location}" for i in sorted(alike, key=lambda i: (i.price, i.location))[:4])
            why = f"catalog {catalog} lists {len(prices)} {purchase} prices: {where}"
            raise NoPrice("gpuhunt", provider.name, why, "declare the provider's zone, or location in price_sources")
        if not math.isfinite(prices[0]) or prices[0] < 0:
            why = f"catalog {catalog} lists {items[0].instance_name} at {prices[0]} USD/h"
            raise NoPrice("gpuhunt", provider.name, why, "expected at least 0; wait for the next catalog")
        return Reading(provider.name, purchase, None, "gpuhunt", catalog, at, prices[0], "USD", "instance_hour", count)

    def _catalogue_items(self, cloud: str, provider: Provider) -> tuple[list[CatalogItem], str]:
        """Every entry of the cloud, and the version of the catalog that says so."""

        def down(why: object, remedy: str) -> NoReturn:
            raise PriceSourceDown("gpuhunt", provider.name, str(why), remedy)

        try:
            import gpuhunt
        except ImportError as error:
            down(f"the package gpuhunt is not installed ({error})", "install it from requirements.txt")
        folder, pinned = os.environ.get("GPUHUNT_CATALOG_DIR"), self._declared.catalog
        remedy = (
            _DOWNLOAD_REMEDY if folder is None else f"put gpuhunt's {cloud}.csv into {folder}, or unset GPUHUNT_CATALOG_DIR to download it"
        )
        heard = _CatalogLog()
        try:
            with _time_limit(self._timeout_s), heard.instead_of_the_log():
                if folder is not None:
                    catalog, named_version = gpuhunt.Catalog(auto_reload=False), _version_of(Path(folder), cloud)
                    if pinned is not None and named_version != pinned:
                        down(
                            f"{folder} holds catalog {named_version}, declared is {pinned}",
                            "put that catalog there, with its name in `version`",
                        )
                elif pinned is not None:
                    catalog, named_version = _load_version(pinned), pinned
                else:
                    catalog, named_version = gpuhunt.default_catalog(), ""
                items = catalog.query(provider=cloud)
        except (OSError, UnicodeDecodeError, csv.Error, gpuhunt.GPUHuntError) as error:
            down(heard.cause(cloud) or _with_cause(error), remedy)
        except ValueError as error:
            raise NoPrice("gpuhunt", provider.name, str(error), "name the cloud as gpuhunt does: cloud in price_sources") from error
        if not items:
            down(heard.cause(cloud) or f"the catalog of {cloud} holds no readable entry", remedy)
        if not named_version:
            loaded = catalog.catalog.get(cloud)
            named_version = loaded.version if loaded is not None else f"asked live, gpuhunt {version('gpuhunt')}"
        return items, named_version


class _CatalogLog(logging.Handler):
    """Collects gpuhunt's log: a failed download logs a traceback for each cloud, including those that were not requested."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def cause(self, cloud: str) -> str | None:
        """The error of a log line about the cloud, else the line; None if there is none."""
        about = [r for r in self._records if r.levelno >= logging.WARNING and f" {cloud} catalog" in r.getMessage()]
        errors = [str(r.exc_info[1]) for r in about if r.exc_info]
        lines = [r.getMessage() for r in about]
        return f"the catalog of {cloud} could not be loaded: {errors[0]}" if errors else lines[0] if lines else None

    @contextmanager
    def instead_of_the_log(self) -> Iterator[None]:
        logger = logging.getLogger("gpuhunt")
        before = logger.propagate
        logger.addHandler(self)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.propagate = before


def _with_cause(error: Exception) -> str:
    return f"{error} ({error.__cause__})" if error.__cause__ is not None else str(error)


@cache  # a version never changes
def _load_version(pinned: str) -> Catalog:
    from gpuhunt import Catalog

    catalog = Catalog(auto_reload=False)
    catalog.load(pinned)
    return catalog


def _version_of(folder: Path, cloud: str) -> str:
    """What the folder says its version is; without that, a hash of the cloud's file: another content is another version."""
    version_file = folder / "version"
    if version_file.is_file():
        return version_file.read_text(encoding="utf-8").strip()
    return f"sha256:{hashlib.sha256((folder / f'{cloud}.csv').read_bytes()).hexdigest()[:12]}"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """gpuhunt downloads without a time limit: a server that never answers would hold the caller for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
