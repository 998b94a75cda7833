"""A table of a campaign as a data frame: what a notebook asks the archive for."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_DOOR = "plumbline.workflows.campaign_table:campaign_table"


def frame(table: str, *, campaign: str | None = None, folder: str | Path | None = None) -> pd.DataFrame:
    """An exported table (docs/export-tables.md) of a campaign, by default the newest one, computed now from the archive at the prices of today.

    `folder`: read it instead as it was exported there; columns of an older version get today's names.

    LookupError for an unknown table or campaign; NoArchive before the first one; FileNotFoundError for a folder without the table.
    """
    made: pd.DataFrame = resolve_name(_DOOR)(table, campaign, None if folder is None else Path(folder))
    return made
