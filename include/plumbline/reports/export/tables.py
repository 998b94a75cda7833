"""All exported tables, and a campaign's as data frames.

`python -m plumbline.reports.export.tables` prints their columns as `docs/export-tables.md` shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from plumbline.reports.conclusions import Conclusions, conclude
from plumbline.reports.content import CampaignData
from plumbline.reports.export import cards, costs, decisions, measured
from plumbline.reports.export.column import Column, Holds, Row, Table

if TYPE_CHECKING:
    import pandas as pd

TABLES: dict[str, Table] = {**cards.TABLES, **decisions.TABLES, **costs.TABLES, **measured.TABLES}
_DTYPES: dict[Holds, Any] = {"text": "string", "number": "Float64", "count": "Int64", "flag": "boolean", "day": "date32[pyarrow]"}


def tables(campaign: CampaignData, found: Conclusions | None = None) -> dict[str, pd.DataFrame]:
    """Every table of the campaign by name; one without rows has its columns all the same. `found`: what was concluded already.

    Numbers are in the unit that the row or the column names, unrounded; what is not known is missing.
    """
    concluded = conclude(campaign) if found is None else found
    simulated = {d.trial.provider.name for d in campaign.documents if d.simulated}
    simulated |= {name for name, provider in campaign.providers.items() if provider.simulated}
    return {name: frame(table, _marked(table.rows(concluded), simulated)) for name, table in TABLES.items()}


def _marked(rows: Iterable[Row], simulated: Collection[str]) -> Iterator[Row]:
    """The rows, those of a provider with whether it is one of the simulated."""
    for row in rows:
        yield {**row, "simulated": row["provider"] in simulated} if "provider" in row else row


def frame(table: Table, rows: Iterable[Row]) -> pd.DataFrame:
    """Rows with the table's columns and types; KeyError for a row that lacks one."""
    import pandas as pd

    listed = list(rows)
    return pd.DataFrame({c.name: pd.array([row[c.name] for row in listed], dtype=_DTYPES[c.holds]) for c in table.columns})


def described(names: Iterable[str]) -> str:
    """What these tables hold, column by column, in Markdown."""
    lines: list[str] = []
    for name in names:
        table = TABLES[name]
        rows = (f"| `{c.name}` | {c.holds} | {_unit(c)} | {c.meaning} |" for c in table.columns)
        lines += [f"## {name}", "", f"{table.meaning[:1].upper()}{table.meaning[1:]}.", ""]
        lines += ["| column | holds | unit | what it is |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _unit(column: Column) -> str:
    return f"in `{column.unit_in}`" if column.unit_in else column.unit or ""


if __name__ == "__main__":
    sys.stdout.write(described(TABLES))
