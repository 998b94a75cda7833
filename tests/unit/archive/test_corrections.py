"""A correction is a new row that names the old one; the old one stays and no longer counts."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from tests.data.result_documents import document, training_metrics, trial

from plumbline.archive import Archive, Refused
from plumbline.archive.engine import writing

SERIES, NAME = trial().series_key, trial().trial_id
SAID: dict[str, Any] = {"by": "ada", "why": "the clock was wrong", "uri": "file:///store"}


def values(archive: Archive) -> set[float]:
    return {o.value for o in archive.sample(SERIES, "2025-11").observations if (o.metric, o.statistic) == ("step_time", "median")}


def test_the_new_row_counts_and_the_old_one_stays(archive: Archive) -> None:
    old, new = document(), document(trial(attempt=2), metrics=training_metrics(step_time=0.2))
    archive.record(old, uri="file:///store")
    assert archive.correct(new, 1, **SAID) == "inserted"
    assert values(archive) == {0.2}
    assert [p.value for p in archive.metric_history(SERIES, "step_time", "median")] == [0.2]
    assert [(t.attempt, t.corrected, t.usable) for t in archive.trials()] == [(1, True, False), (2, False, True)]
    assert archive.document(NAME) == new
    assert archive.document(NAME, 1) == old
    (entry,) = archive.audit(f"{NAME}#1")
    assert (entry.what, entry.who, entry.why) == ("measurement_corrected", SAID["by"], SAID["why"])
    assert entry.detail["before"] == old.checksum
    assert archive.verify() == []


def test_a_correction_can_take_a_good_row_out_of_the_count(archive: Archive) -> None:
    archive.record(document(), uri="file:///store")
    archive.correct(document(trial(attempt=2)), 1, action="reject", **SAID)
    assert values(archive) == set()
    assert archive.campaigns()[0].outcomes.rejected == 1
    assert archive.sample(SERIES, "2025-11").environments == ()


def test_a_rejected_attempt_that_names_no_old_row_takes_nothing_away(archive: Archive) -> None:
    archive.record(document(), uri="file:///store")
    archive.record(document(trial(attempt=2)), uri="file:///store", action="reject")
    assert values(archive) == {0.1}


def test_the_same_correction_again_changes_nothing(archive: Archive) -> None:
    archive.record(document(), uri="file:///store")
    new = document(trial(attempt=2))
    assert [archive.correct(new, 1, **SAID) for _ in range(2)] == ["inserted", "unchanged"]
    assert len(archive.audit(f"{NAME}#1")) == 1


def test_what_cannot_be_a_correction_is_refused_and_leaves_nothing(archive: Archive) -> None:
    archive.record(document(), uri="file:///store")
    with pytest.raises(LookupError, match=f'no attempt "{NAME}#7"'):
        archive.correct(document(trial(attempt=8)), 7, **SAID)
    with pytest.raises(Refused, match=f"^{NAME}#1 "):
        archive.correct(document(), 1, **SAID)
    with pytest.raises(ValueError, match="why is empty"):
        archive.correct(document(trial(attempt=2)), 1, by="ada", why="", uri="file:///store")
    assert len(archive.trials()) == 1
    archive.correct(document(trial(attempt=2)), 1, **SAID)
    with pytest.raises(Refused, match="was corrected already"):
        archive.correct(document(trial(attempt=3)), 1, **SAID)
    assert len(archive.trials()) == 2, "a refused correction leaves no attempt behind"
    archive.record(document(trial(attempt=4)), uri="file:///store")
    with pytest.raises(Refused, match="with another document"):
        archive.correct(document(trial(attempt=4), metrics=training_metrics(step_time=0.3)), 2, **SAID)


@pytest.mark.parametrize("change", ["UPDATE corrections SET why = 'x'", "DELETE FROM corrections"])
@pytest.mark.fault("SQL changes a correction", ends="refused by the database", keeps="the correction")
def test_the_database_itself_refuses_to_change_a_correction(archive: Archive, change: str) -> None:
    archive.record(document(), uri="file:///store")
    archive.correct(document(trial(attempt=2)), 1, **SAID)
    with pytest.raises(DBAPIError, match="append-only"), writing(archive.engine) as session:
        session.execute(text(change))
