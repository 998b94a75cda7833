"""Spend as cells and CSV, and the note beside its tables."""

from __future__ import annotations

import csv
import io

from plumbline.analysis.cost.bill import Money
from plumbline.analysis.prices.book import OTHER_GPUS_TEXT
from plumbline.answers.spend import FIELDS, Spend, SpendRow, spend_data

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
