"""Reports and tables that were written for a campaign."""

from __future__ import annotations

import re
from pathlib import Path

from plumbline.presentation.tables import TABLE_FORMATS

# Neither has a slash or begins with a dot.
_CAMPAIGN = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


_TABLE = re.compile(rf"[a-z][a-z0-9_]*\.({'|'.join(TABLE_FORMATS)})")


def report_file(reports: Path, campaign_id: str) -> Path | None:
    """The file of a campaign's report; None if none was written."""
    return _path_inside(reports, campaign_id, "report.html")


def table_file(reports: Path, campaign_id: str, name: str) -> Path | None:
    """The file of an exported table; None if there is none."""
    return _path_inside(reports, campaign_id, f"tables/{name}") if _TABLE.fullmatch(name) else None


def tables(reports: Path, campaign_id: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Exported tables of a campaign by name, each with the forms that it lies there in."""
    forms_by_name: dict[str, list[str]] = {}
    for path in sorted((reports / campaign_id / "tables").glob("*")) if _CAMPAIGN.fullmatch(campaign_id) else ():
        if _TABLE.fullmatch(path.name):
            forms_by_name.setdefault(path.stem, []).append(path.suffix.removeprefix("."))
    return tuple((name, tuple(forms)) for name, forms in forms_by_name.items())


def _path_inside(reports: Path, campaign_id: str, name: str) -> Path | None:
    file = reports / campaign_id / name
    return file if _CAMPAIGN.fullmatch(campaign_id) and file.is_file() else None


def raw_file(reports: Path, campaign_id: str) -> Path | None:
    """The file of a report's raw data; None if there is none."""
    return _path_inside(reports, campaign_id, "raw.html")
