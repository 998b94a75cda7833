"""Spend as CSV, and the note beside its tables."""

from __future__ import annotations

import csv
import io

from plumbline.analysis.prices.book import OTHER_GPUS_TEXT
from plumbline.answers.spend import FIELDS, Spend, spend_data

NOTE = f"Paid: whole instances while they are held, failed trials included. Share: the trials' part of this, {OTHER_GPUS_TEXT}."


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
