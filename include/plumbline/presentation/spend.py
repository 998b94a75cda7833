"""Spend as cells and CSV, and the note beside its tables."""

from __future__ import annotations

import csv
import io

from plumbline.analysis.cost.bill import Money
from plumbline.analysis.prices.book import OTHER_GPUS_TEXT
from plumbline.answers.spend import FIELDS, Spend, SpendRow, spend_data
from plumbline.metrics.formatting import format_money
from plumbline.presentation.tiles import Tile, saving_tile

NOTE = f"Paid: whole instances while they are held, failed trials included. Share: the trials' part of this, {OTHER_GPUS_TEXT}."


def spend_headings(one: Spend) -> tuple[str, ...]:
    """The headings above the cells of `spend_cells`, with their months."""
    last, this, coming = one.months
    return f"{last} paid", f"{this} paid", f"{this} share", f"{coming} forecast"


def spend_cells(row: SpendRow) -> tuple[str, ...]:
    """The figures of a row, in USD; of a sum without some of its prices at least so much."""
    least = "≥ " if row.why and not row.workload else ""
    values = (row.last.usd, row.current.usd, row.current.share, row.coming.usd)
    return tuple("unknown" if value is None else f"{least}{Money(value)}".removesuffix(" USD") for value in values)


def spend_tiles(one: Spend) -> tuple[Tile, ...]:
    """The answers before any row: last month, this one, the next, and what moving would save. Simulated money is named apart."""
    paid = next((row for row in one.sums if not row.simulated), None)
    made_up = next((row for row in one.sums if row.simulated), None)
    names = (f"Paid in {one.months[0]}", f"Paid in {one.months[1]} so far", f"Forecast of {one.months[2]}")
    notes = ("", "", "a whole monthly rerun at today's prices")
    tiles = []
    for i, (name, note) in enumerate(zip(names, notes, strict=True)):
        use, other = (None if row is None else row.months[i] for row in (paid, made_up))
        simulated = "" if other is None or other.usd is None else f"simulated: {format_money(other.usd)}"
        missing = f"without {use.unpriced}" if use is not None and use.unpriced else ""
        value = "nothing measured" if use is None else f"{'≥ ' if use.unpriced else ''}{format_money(use.usd)}"
        tiles.append(Tile(name, value, "; ".join(filter(None, (note, simulated, missing)))))
    return (*tiles, saving_tile(one.savings))


def spend_csv(one: Spend) -> str:
    """The rows and their sums; the columns of a month carry its name."""
    named = dict(zip(FIELDS, one.months, strict=True))
    text, columns = io.StringIO(), list[str]()
    data = spend_data((*one.rows, *one.sums))
    writer = csv.writer(text, lineterminator="\n")
    for key in data[0] if data else ():
        head, _, rest = key.partition("_")
        columns.append(f"{named[head]} {rest}" if head in named else key)
    writer.writerow(columns)
    writer.writerows([["" if value is None else value for value in row.values()] for row in data])
    return text.getvalue()
