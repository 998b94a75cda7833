"""Prices from a CSV history: one row for each price observed on a day."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path

from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.price_sources.base import NoPrice, PriceSourceDown
from plumbline.results.price_reading import KnownChange, Reading

COLUMNS = ("date", "provider", "region", "instance_type", "gpu", "gpus", "purchase", "usd_per_gpu_hour")
PURCHASES: dict[str, tuple[Purchase, Term | None]] = {
    "on-demand": ("on_demand", None),
    "spot": ("spot", None),
    "reserved": ("reserved", None),
    "reserved-1y": ("reserved", "1y"),
    "reserved-3y": ("reserved", "3y"),
}


class HistoryError(ValueError):
    """A history that cannot be read: the file, the line, the column, and what was expected."""


def read_history(path: Path, *, of: str | None = None) -> Iterator[Reading]:
    """The readings of a file in its own order; `provider` of each is `cloud/region/instance_type`; with `of`, those of that one alone.

    A date is midnight UTC; a time of day may follow it, as in 2025-10-19T21:01:58Z. Empty or negative prices are errors, 0 is kept.
    Raises HistoryError.
    """
    for line, row in read_rows(path, COLUMNS):
        name = f"{row['provider']}/{row['region']}/{row['instance_type']}"
        if of is None or name == of:
            yield _reading(name, row, path, line)


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str | None]]]:
    """The rows of a CSV file that has these columns, each with its line. HistoryError for a file that cannot be read."""
    expected = f"a header with {', '.join(columns)}"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = [column for column in columns if column not in (rows.fieldnames or ())]
            if missing:
                raise HistoryError(f"{path}:1 has no column {', '.join(missing)}; expected {expected}")
            for row in rows:
                yield rows.line_num, row
    except OSError as error:
        raise HistoryError(f"{path} cannot be read ({error.strerror}); expected a CSV file with {', '.join(columns)}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise HistoryError(f"{path} is not a CSV file in UTF-8 ({error}); expected {expected}") from error


def _reading(name: str, row: dict[str, str | None], path: Path, line: int) -> Reading:
    def wrong(column: str, expected: str) -> HistoryError:
        return HistoryError(f'{path}:{line}, {column} is "{row[column] or ""}"; expected {expected}')

    try:
        observed_at = datetime.fromisoformat((row["date"] or "").replace("Z", "+00:00"))
    except ValueError:
        raise wrong("date", "a date such as 2026-01-31") from None
    gpus = row["gpus"] or ""
    if not (gpus.isascii() and gpus.isdigit() and int(gpus) > 0):
        raise wrong("gpus", "a whole number, at least 1")
    bought = PURCHASES.get(row["purchase"] or "")
    if bought is None:
        raise wrong("purchase", f"one of {', '.join(PURCHASES)}")
    try:
        price = float(row["usd_per_gpu_hour"] or "")
    except ValueError:
        price = math.nan
    if not math.isfinite(price) or price < 0:
        raise wrong("usd_per_gpu_hour", "a number, at least 0")
    at = observed_at.astimezone(timezone.utc) if observed_at.tzinfo else observed_at.replace(tzinfo=timezone.utc)
    return Reading(name, *bought, "csv", path.name, at, price, "USD", "gpu_hour", int(gpus))


class CsvPrices:
    """The newest rows of a history for the provider's cloud, region and instance type."""

    def __init__(self, path: Path, max_age_s: float | None = None) -> None:
        self._path = path
        self._max_age_s = max_age_s

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """The newest row of each purchase and term that is not younger than `at`; it was observed on its own date.

        Raises PriceSourceDown for a file that cannot be read or is no longer kept (its newest row of the provider is older than `max_age_s`),
        NoPrice if no row is of the provider.
        """
        key = f"{provider.cloud}/{provider.region}/{provider.instance_type}"
        newest: dict[tuple[Purchase, Term | None], Reading] = {}
        try:
            for reading in read_history(self._path, of=key):
                kind = reading.purchase, reading.term
                if reading.observed_at <= at and (kind not in newest or newest[kind].observed_at <= reading.observed_at):
                    newest[kind] = reading
        except HistoryError as error:
            raise PriceSourceDown(
                "csv", provider.name, str(error), "correct the file, or `file` in the provider's price_sources"
            ) from error
        count = provider.accelerator.count
        others = {reading.gpus for reading in newest.values()} - {count}
        if others:
            why = f"{self._path} gives {key} {', '.join(map(str, sorted(others)))} GPUs, the provider declares {count}"
            raise NoPrice("csv", provider.name, why, "correct accelerator.count, or gpus in the file")
        if not newest:
            why = f"{self._path} has no row of {key} up to {at.date()}"
            raise NoPrice("csv", provider.name, why, "add rows with the provider's cloud, region and instance_type")
        last = max(reading.observed_at for reading in newest.values())
        if self._max_age_s is not None and (at - last).total_seconds() > self._max_age_s:
            why = f"the newest row of {key} in {self._path} is of {last.date()}, older than max_age"
            raise PriceSourceDown("csv", provider.name, why, "check the job that writes the file, or raise max_age in price_sources")
        return [replace(reading, provider=provider.name) for reading in newest.values()]


_CHANGE_COLUMNS = ("date", "provider", "region", "instance_type", "purchase", "old_usd_per_gpu_hour", "new_usd_per_gpu_hour")


def known_changes(path: Path) -> Iterator[KnownChange]:
    """The changes of a CSV file, in its order. HistoryError for a file or a row that cannot be read."""
    for line, row in read_rows(path, _CHANGE_COLUMNS):
        try:
            purchase, term = PURCHASES[row["purchase"] or ""]
            old, new = (float(row[column] or "") for column in ("old_usd_per_gpu_hour", "new_usd_per_gpu_hour"))
            on = date.fromisoformat(row["date"] or "")
            if not (0 <= old < math.inf and 0 <= new < math.inf):
                raise ValueError(f"{old:g} → {new:g} USD is not a price change")
        except (KeyError, ValueError) as error:
            expected = f"a date such as 2026-01-31, a purchase of {', '.join(PURCHASES)}, and two numbers, at least 0"
            raise HistoryError(f"{path}:{line} cannot be read ({error}); expected {expected}") from error
        yield KnownChange(f"{row['provider']}/{row['region']}/{row['instance_type']}", purchase, term, on, old, new)
