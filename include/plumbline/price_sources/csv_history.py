"""Prices from a CSV history: one row for each price observed on a day."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import ListedPurchase, Term
from plumbline.formats.reading.foreign_number import ForeignNumber, described, moment, number
from plumbline.formats.reading.text_file import UnusableFile, short_lines
from plumbline.price_sources.base import MOST_USD_PER_GPU_HOUR, NoPrice, PriceSourceDown, typical_range
from plumbline.results.price_reading import Reading

COLUMNS = ("date", "provider", "region", "instance_type", "gpu", "gpus", "purchase", "usd_per_gpu_hour")
PURCHASES: dict[str, tuple[ListedPurchase, Term | None]] = {
    "on-demand": ("on_demand", None),
    "spot": ("spot", None),
    "reserved": ("reserved", None),
    "reserved-1y": ("reserved", "1y"),
    "reserved-3y": ("reserved", "3y"),
}
_ANNOUNCED = timedelta(days=366)
"""How far ahead a row may announce a price; a later date is an error of the file."""
_LINES_SHOWN = 50
_MOST_GPUS = 100_000
_PRICE = re.compile(r"\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
Row = dict[str, str | None]


class HistoryError(ValueError):
    """A history that cannot be read: the file, and of each wrong line the column and the expected value."""


def read_history(path: Path, *, of: str | None = None, until: datetime | None = None) -> list[Reading]:
    """The readings of a file in its own order; `provider` of each is `cloud/region/instance_type`; with `of`, those of that one alone.

    A date is midnight UTC; a time of day may follow it, as in 2025-10-19T21:01:58Z. Raises HistoryError with every wrong line: a price that
    is not above 0, a date after `until`, two different prices of one moment.
    """
    return _history(path, list(rows_of(path, COLUMNS)), of, until)


def _history(path: Path, rows: Iterable[tuple[int, Row]], of: str | None, until: datetime | None) -> list[Reading]:
    seen: dict[tuple[object, ...], tuple[int, float]] = {}
    readings: list[Reading] = []
    wrong: list[str] = []
    count = 0
    for line, row in rows:
        if of is not None and name_of(row) != of:
            continue
        try:
            if None in row:
                raise HistoryError(f"{path}:{line} has more columns than the header; expected quotes around a value with a comma")
            reading = _reading(row, path, line)
            if until is not None and reading.observed_at > until:
                raise _wrong(path, line, row, "date", f"a day up to {until.date()}")
            moment = reading.provider, reading.purchase, reading.term, reading.observed_at
            first_line, price = seen.setdefault(moment, (line, reading.amount))
            if price != reading.amount:
                raise _wrong(path, line, row, "usd_per_gpu_hour", f"one price of one moment: line {first_line} says {price:g}")
            readings.append(reading)
        except HistoryError as error:
            count += 1
            wrong += [str(error)] if count <= _LINES_SHOWN else []
    if count > 1:
        more = [f"… and {count - _LINES_SHOWN} more"] if count > _LINES_SHOWN else []
        wrong = ["\n".join([f"{path} has {count} wrong lines:", *wrong, *more])]
    if wrong:
        raise HistoryError(wrong[0])
    return readings


def rows_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV file that has these columns, each with its line. HistoryError for a file that cannot be read."""
    expected = f"a header with {', '.join(columns)}"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(short_lines(file, str(path)))
            names = rows.fieldnames or ()
            missing = [column for column in columns if column not in names]
            other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
            if other is not None:
                raise HistoryError(f"{path}:1 separates columns by {other!r}; expected commas between columns, and points as decimal marks")
            if missing:
                raise HistoryError(f"{path}:1 has no column {', '.join(missing)}; expected {expected}")
            for row in rows:
                yield rows.line_num, row
    except UnusableFile as error:
        raise HistoryError(str(error)) from None
    except OSError as error:
        raise HistoryError(f"{path} cannot be read ({error.strerror}); expected a CSV file with {', '.join(columns)}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise HistoryError(f"{path} is not a CSV file in UTF-8 ({error}); expected {expected}") from error


def name_of(row: Row) -> str:
    """The `cloud/region/instance_type` of a row."""
    return f"{row['provider']}/{row['region']}/{row['instance_type']}"


def _wrong(path: Path, line: int, row: Row, column: str, expected: str) -> HistoryError:
    return HistoryError(f"{path}:{line}, {column} is {described(row[column] or '')}; expected {expected}")


def _reading(row: Row, path: Path, line: int) -> Reading:
    try:
        at = moment(row["date"] or "", "a date such as 2026-01-31")
    except ForeignNumber as error:
        raise _wrong(path, line, row, "date", error.expected) from None
    gpus = row["gpus"] or ""
    if not (gpus.isascii() and gpus.isdigit() and len(gpus) <= len(str(_MOST_GPUS)) and 1 <= int(gpus) <= _MOST_GPUS):
        raise _wrong(path, line, row, "gpus", f"a whole number, at least 1 and at most {_MOST_GPUS:,}")
    bought = PURCHASES.get(row["purchase"] or "")
    if bought is None:
        raise _wrong(path, line, row, "purchase", f"one of {', '.join(PURCHASES)}")
    text = (row["usd_per_gpu_hour"] or "").strip()
    try:
        price = number(text if _PRICE.fullmatch(text) else None, least=0.0, most=MOST_USD_PER_GPU_HOUR, above=True)
    except ForeignNumber:
        expected = f"a number above 0, such as 6.88, without a currency, at most {MOST_USD_PER_GPU_HOUR:,.0f}"
        raise _wrong(path, line, row, "usd_per_gpu_hour", expected) from None
    return Reading(name_of(row), *bought, "csv", path.name, at, price, "USD", "gpu_hour", int(gpus))


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
        try:
            rows = list(rows_of(self._path, COLUMNS))
            newest = _newest(_history(self._path, rows, key, at + _ANNOUNCED), at)
        except HistoryError as error:
            raise PriceSourceDown(
                "csv", provider.name, str(error), "correct the file, or `file` in the provider's price_sources"
            ) from error
        count = provider.accelerator.count
        others = {reading.gpus for reading in newest} - {count}
        if others:
            why = f"{self._path} gives {key} {', '.join(map(str, sorted(others)))} GPUs, the provider declares {count}"
            raise NoPrice("csv", provider.name, why, "correct accelerator.count, or gpus in the file")
        if not newest:
            why = f"{self._path} has no row of {key} up to {at.date()}"
            raise NoPrice("csv", provider.name, why, "add rows with the provider's cloud, region and instance_type")
        last = max(reading.observed_at for reading in newest)
        if self._max_age_s is not None and (at - last).total_seconds() > self._max_age_s:
            why = f"the newest row of {key} in {self._path} is of {last.date()}, older than max_age"
            raise PriceSourceDown("csv", provider.name, why, "check the job that writes the file, or raise max_age in price_sources")
        return [replace(reading, provider=provider.name, typical=self._typical(reading, rows, at)) for reading in newest]

    def _typical(self, reading: Reading, rows: Sequence[tuple[int, Row]], at: datetime) -> tuple[float, float] | None:
        """Other prices in the file for the reading's product and number of GPUs; wrong lines are skipped."""
        cloud, _, instance_type = reading.provider.split("/", 2)
        products = {(row["gpu"], row["gpus"]) for _, row in rows if name_of(row) == reading.provider}
        alike = []
        for line, row in rows:
            if (row["gpu"], row["gpus"]) in products and name_of(row) != reading.provider:
                with suppress(HistoryError):
                    alike.append(_reading(row, self._path, line))
        bought = [other for other in _newest(alike, at) if (other.purchase, other.term) == (reading.purchase, reading.term)]
        regions = [o for o in bought if o.provider.startswith(f"{cloud}/") and o.provider.endswith(f"/{instance_type}")]
        return typical_range(reading.amount, (o.amount for o in bought if o not in regions), (o.amount for o in regions))


def _newest(readings: Iterable[Reading], at: datetime) -> list[Reading]:
    """The last reading up to `at` of each provider, purchase and term."""
    newest: dict[tuple[str, ListedPurchase, Term | None], Reading] = {}
    for reading in readings:
        key = reading.provider, reading.purchase, reading.term
        if reading.observed_at <= at and (key not in newest or newest[key].observed_at <= reading.observed_at):
            newest[key] = reading
    return list(newest.values())
