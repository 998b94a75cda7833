"""Reports and tables that were written for a campaign, on the shelf `reports`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import IO

from plumbline.archive.shelves import Shelf
from plumbline.presentation.tables import TABLE_FORMATS

REPORT, RAW, INDEX = "report.html", "raw.html", "index.html"
_TABLE = re.compile(rf"[a-z][a-z0-9_]*\.({'|'.join(TABLE_FORMATS)})")
_TABLES = "tables/"


def open_table(reports: Shelf, campaign_id: str, name: str) -> IO[bytes] | None:
    """An exported table; None if there is none. Raises like `Shelf.open`."""
    return reports.open(campaign_id, f"{_TABLES}{name}") if _TABLE.fullmatch(name) else None


def tables(reports: Shelf, campaign_id: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Exported tables of a campaign by name, each with the forms that it lies there in."""
    forms_by_name: dict[str, list[str]] = {}
    for file in reports.files(campaign_id):
        table = file.removeprefix(_TABLES)
        if file.startswith(_TABLES) and _TABLE.fullmatch(table):
            name, _, form = table.partition(".")
            forms_by_name.setdefault(name, []).append(form)
    return tuple((name, tuple(forms)) for name, forms in forms_by_name.items())


def docs_name(campaign_id: str, checked: str) -> str:
    """The folder of the Data Docs of a check. `checked`: provider and lane, such as aurora-training."""
    return f"{campaign_id}-{checked}"


def data_docs_of(docs: Shelf, campaign_id: str, providers: Collection[str]) -> tuple[str, ...]:
    """What was checked of a campaign's providers, as of docs_name."""
    begin = docs_name(campaign_id, "")
    checked = [name.removeprefix(begin) for name in sorted(docs.names(INDEX)) if name.startswith(begin)]
    return tuple(name for name in checked if any(name.startswith(f"{provider}-") for provider in providers))
