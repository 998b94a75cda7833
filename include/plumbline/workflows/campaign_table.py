"""One exported table of a campaign, for `archive.frame`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.archive import open_archive
from plumbline.metrics.formatting import unknown_name
from plumbline.presentation.tables import TABLES, campaign_tables, read_table
from plumbline.workflows.report import campaign_data, newest_campaign

if TYPE_CHECKING:
    import pandas as pd


def campaign_table(table: str, campaign: str | None, folder: Path | None) -> pd.DataFrame:
    """See `archive.frame`."""
    if table not in TABLES:
        raise LookupError(unknown_name("table", table, TABLES))
    if folder is not None:
        found = read_table(table, folder)
        return found[found["campaign"] == campaign].reset_index(drop=True) if campaign and "campaign" in found else found
    with open_archive(create=False) as archive:
        return campaign_tables(campaign_data(archive, campaign or newest_campaign(archive)))[table]
