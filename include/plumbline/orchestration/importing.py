"""Taking in another archive's campaigns, judged by this installation's own quality checks. No Airflow in here."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.results import Reason, ResultDocument

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.bundle import Imported
    from plumbline.archive.views import Action


def import_bundle(archive: Archive, folder: Path, campaigns: Sequence[str] | None, by: str) -> list[Imported]:
    """Take in a bundle; what the quality checks reject here is rejected, whatever the bundle says. Raises like Archive.import_."""
    return archive.import_(folder, campaigns, by=by, judge=verdicts)


def verdicts(documents: Sequence[ResultDocument]) -> Mapping[str, tuple[Action, Sequence[Reason]]]:
    """The verdict on each document, by `trial_id#attempt`. No pages are kept: the campaign is not this installation's own."""
    from plumbline.quality import check

    with tempfile.TemporaryDirectory(prefix="plumbline-import-") as pages:
        report = check(documents, [document.trial for document in documents], Path(pages), "import")
    return {name: (verdict.action, verdict.reasons) for name, verdict in report.verdicts.items()}
