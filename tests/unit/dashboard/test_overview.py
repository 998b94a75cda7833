"""What a cell of the overview says of its series."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.data.result_documents import PLANNED, document, trial

from plumbline.archive import FindingRecord, open_archive
from plumbline.dashboard.overview import overview
from plumbline.declarations import load


@pytest.mark.parametrize(("state", "said"), [("open", "page"), ("acknowledged", "page"), ("resolved", "no baseline")])
def test_a_drift_that_somebody_is_on_is_still_a_drift(tmp_path: Path, state: str, said: str) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "lab-2core", "performance", "page", "PAGE  slower")])
        if state != "open":
            archive.set_finding_state("f1", state, "ada", "a test")  # type: ignore[arg-type]
        shown = overview(archive, load(), tmp_path, PLANNED + timedelta(days=1))
    ((cell,),) = (line.cells for line in shown.lines)
    assert cell is not None and cell.drift == said
    assert [f.finding_id for f in shown.findings] == (["f1"] if state == "open" else []), "the list is of what waits for somebody"
