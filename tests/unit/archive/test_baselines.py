"""The baseline: bootstrapped once by the written rule, moved only by a decision."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.data.result_documents import PLANNED, document, failed, trial

from plumbline.archive import Archive
from plumbline.archive.baselines import BOOTSTRAP
from plumbline.declarations import DriftRules

URI = "file:///store"
SERIES = trial().series_key
RULES = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2}')


def campaign(archive: Archive, name: str, month: int, outcomes: str, replay_of: str | None = None) -> None:
    """One trial for each letter: v valid, d degraded, i invalid, f failed, r rejected by the quality checks."""
    for repeat, letter in enumerate(outcomes, start=1):
        asked = trial(campaign=name, repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month), replay_of=replay_of)
        measured = failed(asked) if letter == "f" else document(asked, status={"d": "degraded", "i": "invalid"}.get(letter, "valid"))
        archive.record(measured, uri=URI, action="reject" if letter == "r" else "accept")


def test_the_first_complete_campaign_becomes_the_baseline(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "vd")
    campaign(archive, "2025-12", 1, "vv")
    assert archive.baseline(SERIES) == []
    assert archive.bootstrap_baseline(SERIES, RULES) == "2025-11"
    assert archive.bootstrap_baseline(SERIES, RULES) is None
    assert archive.baseline(SERIES) == ["2025-11"]
    (entry,) = archive.audit(SERIES)
    assert (entry.who, entry.what) == (BOOTSTRAP, "baseline_accepted")
    assert "2 usable trials (at least 2)" in entry.why


@pytest.mark.parametrize("outcomes", ["v", "vvf", "ri", "vi", "ff", "vr"])
def test_an_incomplete_campaign_does_not(archive: Archive, outcomes: str) -> None:
    campaign(archive, "2025-11", 0, outcomes)
    assert archive.bootstrap_baseline(SERIES, RULES) is None
    campaign(archive, "2025-12", 1, "vvi")
    assert archive.bootstrap_baseline(SERIES, RULES) == "2025-12"


def test_a_trial_that_failed_first_and_was_repeated_does_not_spoil_it(archive: Archive) -> None:
    archive.record(failed(trial(repeat=1)), uri=URI)
    for repeat in (1, 2):
        archive.record(document(trial(repeat=repeat, attempt=2)), uri=URI)
    assert archive.bootstrap_baseline(SERIES, RULES) == "2025-11"


def test_a_campaign_of_replays_does_not(archive: Archive) -> None:
    campaign(archive, "replay-1", 0, "vv", replay_of="some.trial")
    assert archive.bootstrap_baseline(SERIES, RULES) is None


def test_an_accepted_baseline_takes_the_place_of_the_old_one(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "vv")
    campaign(archive, "2025-12", 1, "vf")
    archive.bootstrap_baseline(SERIES, RULES)
    view = archive.accept_baseline(SERIES, "2025-12", by="ada", why="the new driver is here to stay")
    assert (view.rule, view.accepted_by, view.superseded_at) == ("decision", "ada", None)
    assert archive.baseline(SERIES) == ["2025-12"]
    assert [(b.campaign_id, b.superseded_at is None) for b in archive.baseline_history(SERIES)] == [("2025-11", False), ("2025-12", True)]
    assert archive.accept_baseline(SERIES, "2025-12", by="bob", why="again") == view
    assert archive.bootstrap_baseline(SERIES, RULES) is None
    assert [(e.who, e.detail["before"]) for e in archive.audit(SERIES)] == [(BOOTSTRAP, []), ("ada", ["2025-11"])]


def test_an_old_baseline_can_be_accepted_again(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "vv")
    campaign(archive, "2025-12", 1, "vv")
    for name in ("2025-11", "2025-12", "2025-11"):
        archive.accept_baseline(SERIES, name, by="ada", why="rolled back")
    assert archive.baseline(SERIES) == ["2025-11"]
    assert len(archive.baseline_history(SERIES)) == 3


def test_what_cannot_be_a_baseline_is_refused(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "fi")
    with pytest.raises(LookupError, match='no series "no/such"'):
        archive.accept_baseline("no/such", "2025-11", by="ada", why="x")
    with pytest.raises(LookupError, match='no trial in the campaign "2099-01"'):
        archive.accept_baseline(SERIES, "2099-01", by="ada", why="x")
    with pytest.raises(ValueError, match="has no usable trial"):
        archive.accept_baseline(SERIES, "2025-11", by="ada", why="x")
    with pytest.raises(ValueError, match="why is empty"):
        archive.accept_baseline(SERIES, "2025-11", by="ada", why=" ")
    with pytest.raises(LookupError, match="no series"):
        archive.bootstrap_baseline("no/such", RULES)
    assert archive.audit() == []
