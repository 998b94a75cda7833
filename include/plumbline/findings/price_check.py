"""The verdict on what the archive's readings of a price mean against the accepted one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from plumbline.analysis.prices.book import price_in_force
from plumbline.analysis.prices.check import PriceVerdict, check_price, reports_prices
from plumbline.archive import Archive
from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.results.price_reading import Reading

_READINGS = 400
"""More than a year of daily readings of one price, so that the first day of an unchanged price stays the same."""


def accepted_price(archive: Archive, provider: Provider, purchase: Purchase, term: Term | None, on: date) -> float | None:
    """The accepted price on a day, in USD per GPU-hour: the newer of the accepted and the declared one; None without either."""
    usd = price_in_force(archive.accepted_price(provider.name, purchase, term), provider, purchase, term, on)
    return None if usd is None else usd / provider.accelerator.count


def checked_price(
    archive: Archive, provider: Provider, purchase: Purchase, term: Term | None, at: datetime, read: Sequence[Reading] = ()
) -> PriceVerdict | None:
    """The verdict on the archive's readings of one price at a time; None without a reading of a source that reports prices.

    `read`: what the sources just said of the provider; only they know what a first price can be compared with."""
    just_read = {reading.reading_id: reading for reading in read}
    readings = [just_read.get(reading.reading_id, reading) for reading in _readings(archive, provider.name, purchase, term)]
    if not any(reports_prices(r.source) for r in readings):
        return None
    on_demand = _on_demand(archive, provider, at, read) if purchase != "on_demand" else None
    accepted = accepted_price(archive, provider, purchase, term, at.date())
    return check_price(readings, accepted, on_demand=on_demand, now=at, repeated=just_read)


def _on_demand(archive: Archive, provider: Provider, at: datetime, read: Sequence[Reading]) -> float | None:
    """The on-demand price of the newest reading that nothing contradicts, else the accepted one."""
    checked = checked_price(archive, provider, "on_demand", None, at, read)
    if checked is not None and (checked.unproven or checked.status not in ("held", "outdated")):
        return checked.price
    return accepted_price(archive, provider, "on_demand", None, at.date())


def _readings(archive: Archive, provider: str, purchase: Purchase, term: Term | None) -> list[Reading]:
    stored = archive.price_readings(provider, purchase, term, latest=_READINGS)
    names = Reading.__dataclass_fields__.keys() - {"typical"}
    return [Reading(**{name: getattr(view, name) for name in names}) for view in stored if view.term == term]
