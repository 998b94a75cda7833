"""What a report is made of: the archive's word on which attempts count."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data.result_documents import document, training_metrics, trial

from plumbline.analysis.conclusions import conclude
from plumbline.answers.campaign_bill import campaign_bill
from plumbline.archive import open_archive
from plumbline.declarations import load
from plumbline.workflows.report import campaign_data


@pytest.mark.parametrize(("action", "usable"), [("reject", 0), ("accept", 1)])
def test_what_was_corrected_is_neither_scored_nor_paid_for_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, usable: int
) -> None:
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
        (told,) = campaign_bill(archive, load(), "2025-11").by_provider()
    assert (told.trials, told.finished, told.lost) == (1, usable, 1 - usable)
    assert [d.trial.attempt for d in data.documents] == [2]
    found = conclude(data)
    (card,), (cost,) = found.cards, found.provider_costs
    assert (card.usable, card.attempts) == (usable, 1)
    assert (cost.trials, cost.finished, cost.lost) == (1, usable, 1 - usable)
    row = card.row("step_time")
    assert (row.value if row else None) == (0.2 if usable else None)
