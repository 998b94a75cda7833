"""What a report is made of: the archive's word on which attempts count."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data.result_documents import document, training_metrics, trial

from plumbline.archive import open_archive
from plumbline.orchestration.reporting import campaign_data
from plumbline.reports import conclude


@pytest.mark.parametrize(("action", "usable"), [("reject", 0), ("accept", 1)])
def test_what_was_corrected_is_shown_and_never_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, usable: int) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    with open_archive() as archive:
        archive.record(document(), uri="file:///store")
        archive.correct(
            document(trial(attempt=2), metrics=training_metrics(step_time=0.2)),
            1,
            by="ada",
            why="the clock was wrong",
            uri="file:///store",
            action=action,  # type: ignore[arg-type]
        )
        data = campaign_data(archive, "2025-11")
    assert len(data.documents) == 2
    (card,) = conclude(data).cards
    assert card.usable == usable
    row = card.row("step_time")
    assert (row.value if row else None) == (0.2 if usable else None)
