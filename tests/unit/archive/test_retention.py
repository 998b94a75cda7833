"""Raw evidence is kept no longer when it is old and nothing points to it; everything else stays, and nobody misses what went."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from tests.data.result_documents import PLANNED, document, training_metrics, trial

from plumbline.archive import Archive, DecisionRecord, FindingRecord, QuarantineRecord, open_archive
from plumbline.declarations import DriftRules
from plumbline.results import Evidence

STORE = "file:///store"
DAY = 86400.0
SERIES = trial().series_key
RULES = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 1}')
RULE = "kept for 30 d"
FILES = (Evidence(kind="steps", uri="evidence/steps.parquet", sha256="a" * 64, bytes=100, rows=3),)


def measured(
    archive: Archive, campaign: str, months_ago: int, *, store: str = STORE, files: tuple[Evidence, ...] = FILES, **of: int
) -> str:
    """One attempt of a campaign, planned so many months ago; its trial's id."""
    at = datetime.now(timezone.utc) - timedelta(days=31 * months_ago)
    asked = trial(campaign=campaign, planned_at=at, **of)
    folder = f"{store}/{asked.campaign_id}/{asked.trial_id}/attempt-{asked.attempt}"
    archive.record(document(asked, metrics=training_metrics(step_time=0.1), evidence=files, timeline=()), uri=folder)
    return asked.trial_id


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", STORE)


@pytest.fixture
def newest(archive: Archive) -> Archive:
    """The series' newest campaign is of today: what is older is only kept if something points to it."""
    measured(archive, "now", 0)
    return archive


def due(archive: Archive, keep_s: float = 30 * DAY) -> list[tuple[str, int]]:
    return [(one.campaign_id, one.bytes) for one in archive.aged_evidence(keep_s, STORE).due]


def test_only_what_is_past_its_time_is_due(newest: Archive) -> None:
    measured(newest, "old", 3)
    measured(newest, "older", 5)
    assert due(newest) == [("old", 100), ("older", 100)]
    assert due(newest, 100 * DAY) == [("older", 100)]
    assert due(newest, 1000 * DAY) == []


def test_the_newest_campaign_of_a_series_stays_however_old_it_is(archive: Archive) -> None:
    measured(archive, "old", 3)
    measured(archive, "older", 5)
    assert due(archive) == [("older", 100)]
    assert archive.aged_evidence(30 * DAY, STORE).cited == {"newest campaign": 1}


@pytest.mark.parametrize("superseded", [False, True])
def test_a_baseline_keeps_its_evidence_also_after_another_took_its_place(newest: Archive, superseded: bool) -> None:
    measured(newest, "old", 3)
    measured(newest, "uncited", 3)
    newest.accept_baseline(SERIES, "old", "ada", "good")
    if superseded:
        newest.accept_baseline(SERIES, "now", "ada", "better")
    assert due(newest) == [("uncited", 100)]
    assert newest.aged_evidence(30 * DAY, STORE).cited == {"baseline": 1}


@pytest.mark.parametrize("state", ["open", "resolved"])
def test_a_finding_keeps_the_evidence_of_its_series_in_its_campaigns(newest: Archive, state: str) -> None:
    for campaign in ("first", "again", "before", "unrelated"):
        measured(newest, campaign, 4)
    detail = {"series": [SERIES], "seen_in": ["again"], "baseline_campaigns": ["before"]}
    newest.save_findings([FindingRecord("f1", "group:x", "first", "lab-2core", "performance", "warn", "slower", detail)])
    if state == "resolved":
        newest.set_finding_state("f1", "resolved", "ada", "over")
    assert due(newest) == [("unrelated", 100)]
    assert newest.aged_evidence(30 * DAY, STORE).cited == {"finding": 3}


def test_a_finding_that_names_no_series_keeps_its_providers_campaign_and_one_without_a_campaign_keeps_nothing(newest: Archive) -> None:
    measured(newest, "old", 3)
    newest.save_findings([FindingRecord("f2", "price:lab", None, "lab-2core", "price", "info", "dearer")])
    assert due(newest) == [("old", 100)]
    newest.save_findings([FindingRecord("f1", "environment:lab", "old", "lab-2core", "environment", "warn", "changed")])
    assert due(newest) == []


def test_a_finding_of_another_series_keeps_nothing_of_this_one(newest: Archive) -> None:
    measured(newest, "old", 3)
    inference = trial("inference", campaign="old", planned_at=PLANNED)
    newest.record(document(inference, evidence=()), uri=f"{STORE}/x")
    newest.save_findings([FindingRecord("f1", inference.series_key, "old", "lab-2core", "performance", "warn", "slower")])
    assert due(newest) == [("old", 100)]


@pytest.mark.parametrize("named", ["campaign", "trial"])
def test_a_decision_keeps_what_it_names_anywhere_in_its_detail(newest: Archive, named: str) -> None:
    name = measured(newest, "old", 3)
    measured(newest, "uncited", 3)
    detail = {"inputs": [{"campaign": "old"}]} if named == "campaign" else {"by": {name: 0.5}}
    newest.save_decision(DecisionRecord("d1", "team", "training", "lab-2core", 0.9, detail))
    assert due(newest) == [("uncited", 100)]
    assert newest.aged_evidence(30 * DAY, STORE).cited == {"decision": 1}


def test_a_correction_keeps_both_attempts_and_quarantine_keeps_its_own(newest: Archive) -> None:
    measured(newest, "old", 3)
    again = trial(campaign="old", attempt=2, planned_at=datetime.now(timezone.utc) - timedelta(days=93))
    corrected = document(again, evidence=FILES, timeline=())
    newest.correct(corrected, 1, by="ada", why="a neighbour", uri=f"{STORE}/old/{again.trial_id}/attempt-2", action="reject")
    held = measured(newest, "held", 3)
    newest.quarantine(QuarantineRecord("held", held, 1, f"{STORE}/quarantine/x", "0" * 64, "cut short"))
    assert due(newest) == []
    (one,) = newest.quarantined()
    newest.release(one.quarantine_id, "ada", "it holds")
    assert due(newest) == [("held", 100)]


def test_what_lies_in_another_store_or_outside_of_evidence_is_left_alone(newest: Archive) -> None:
    measured(newest, "theirs", 3, store="s3://theirs")
    measured(newest, "beside", 3, store="file:///store-of-another")
    measured(newest, "above", 3, store="file:///store/../etc")
    odd = (Evidence(kind="document", uri="result.json", sha256="b" * 64, bytes=7),)
    measured(newest, "odd", 3, files=odd)
    found = newest.aged_evidence(30 * DAY, STORE)
    assert (found.due, found.elsewhere) == ((), 3)


@pytest.mark.fault("a row names another trial's folder as its own", ends="refused", keeps="the other trial's evidence")
def test_an_attempt_deletes_nothing_of_another_one(newest: Archive) -> None:
    theirs = f"{STORE}/now/{trial(campaign='now').trial_id}/attempt-1"
    asked = trial(campaign="old", planned_at=datetime.now(timezone.utc) - timedelta(days=93))
    newest.record(document(asked, evidence=FILES, timeline=()), uri=theirs)
    found = newest.aged_evidence(30 * DAY, STORE)
    assert (found.due, found.elsewhere) == ((), 1)
    with newest.engine.begin() as connection:
        connection.execute(
            text("INSERT INTO expired_evidence SELECT trial_pk, position, :at, 'forged', NULL FROM evidence"),
            {"at": "2025-01-01 00:00:00.000000"},
        )
    assert [one.uri for one, _, _ in newest.expired_evidence(STORE) if one.campaign_id == "old"] == []


def test_what_expired_is_said_once_and_is_deleted_until_that_is_said(newest: Archive) -> None:
    name = measured(newest, "old", 3)
    (gone,) = newest.expire_evidence(30 * DAY, RULE, STORE).due
    assert (gone.trial_id, gone.files) == (name, ("evidence/steps.parquet",))
    assert newest.expire_evidence(30 * DAY, RULE, STORE).due == ()
    (entry,) = newest.audit("old")
    assert (entry.who, entry.what, entry.why) == ("retention", "evidence_expired", RULE)
    assert entry.detail == {"attempts": 1, "files": 1, "bytes": 100}
    ((pending, since, rule),) = newest.expired_evidence(STORE)
    assert (pending, rule) == (gone, RULE) and datetime.now(timezone.utc) - since < timedelta(minutes=5)
    assert newest.expired_evidence("s3://another") == []
    newest.evidence_removed([pending])
    assert newest.expired_evidence(STORE) == []


def test_verify_misses_what_expired_no_more_and_still_misses_the_rest(newest: Archive) -> None:
    measured(newest, "old", 3)
    before = newest.verify(evidence=True)
    assert len(before) == 2 and all("is missing" in problem for problem in before)
    newest.expire_evidence(30 * DAY, RULE, STORE)
    (still,) = newest.verify(evidence=True)
    assert "/now/" in still


def test_shares_together_read_every_file_once(newest: Archive) -> None:
    for number in range(1, 6):
        measured(newest, "old", 3, repeat=number)
    whole = newest.verify(evidence=True)
    parts = [newest.verify(evidence=True, share=(k, 4)) for k in range(4)]
    assert max(map(len, parts)) < len(whole) == 6
    assert sorted(problem for part in parts for problem in part) == sorted(whole)


def test_the_database_keeps_what_expired(newest: Archive) -> None:
    measured(newest, "old", 3)
    newest.expire_evidence(30 * DAY, RULE, STORE)
    with pytest.raises(DBAPIError, match="append-only"), newest.engine.begin() as connection:
        connection.execute(text("DELETE FROM expired_evidence"))


def test_a_correction_of_what_expired_does_not_make_it_missing_again(newest: Archive) -> None:
    measured(newest, "old", 3)
    newest.expire_evidence(30 * DAY, RULE, STORE)
    again = trial(campaign="old", attempt=2, planned_at=datetime.now(timezone.utc) - timedelta(days=93))
    more = (*FILES, Evidence(kind="log", uri="evidence/log", sha256="c" * 64, bytes=1))
    newest.correct(document(again, evidence=more, timeline=()), 1, by="ada", why="a neighbour", uri=f"{STORE}/old/2", action="reject")
    problems = [problem for problem in newest.verify(evidence=True) if "/old/" in problem]
    assert len(problems) == 1 and "evidence/log is missing" in problems[0]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as opened:
        yield opened


def test_an_archive_that_took_the_campaign_in_misses_nothing_either(
    newest: Archive, other: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "upkeep.yaml").write_text(f"evidence: {{stores: ['{STORE}']}}")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", "file:///store-of-the-other")
    measured(newest, "old", 3)
    before = newest.export(tmp_path / "before", ["old"])
    other.import_(tmp_path / "before")
    assert len(other.verify(evidence=True)) == 1
    newest.expire_evidence(30 * DAY, RULE, STORE)
    after = newest.export(tmp_path / "after", ["old"])
    assert [one.content_hash for one in before] == [one.content_hash for one in after], "what was measured is the same"
    assert [(one.new, one.known, one.refused) for one in other.import_(tmp_path / "after")] == [(0, 1, None)]
    assert other.verify(evidence=True) == []
    assert other.import_(tmp_path / "after") == other.import_(tmp_path / "after")


def test_an_archive_with_a_copy_of_its_own_goes_on_missing_it(
    newest: Archive, other: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", "file:///copy/of")
    name = measured(newest, "old", 3)
    newest.expire_evidence(30 * DAY, RULE, STORE)
    newest.export(tmp_path / "bundle", ["old"])
    mine = newest.document(name)
    assert mine is not None
    other.record(mine, uri="file:///copy/of/mine")
    assert [one.refused for one in other.import_(tmp_path / "bundle")] == [None]
    assert len(other.verify(evidence=True)) == 1
