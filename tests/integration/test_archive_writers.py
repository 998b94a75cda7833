"""Several processes on one archive, and processes that die while they write: on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.archive_writer import URI, die_at, die_correcting_at, die_importing_at, die_migrating_at, record_all
from tests.fakes.next_schema import newer_program

from plumbline.archive import FindingRecord, open_archive
from plumbline.archive.migrate import head, revision_of

PATIENCE_S = 120
SQLITE_QUICKLY = pytest.mark.parametrize(
    "archive_url", ["sqlite", pytest.param("postgresql", marks=[pytest.mark.integration, pytest.mark.full])], indirect=True
)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.fakes.archive_writer"])


def together(processes: list[Any], start: Any, answers: Any) -> list[Any]:
    """Let the processes go at once; what each of them answered. One that fails has its traceback in the captured output."""
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in processes] == [0] * len(processes)
    return [answers.get(timeout=PATIENCE_S) for _ in processes]


@pytest.mark.fault("two writers open a new archive at once", ends="both record", keeps="every trial, once")
def test_two_writers_that_open_a_new_archive_at_once_lose_nothing(archive_url: str) -> None:
    start, answers = PROCESSES.Event(), PROCESSES.Queue()
    halves = (range(1, 13), range(7, 19))
    writers = [PROCESSES.Process(target=record_all, args=(archive_url, list(half), start, answers)) for half in halves]
    said = [answer for each in together(writers, start, answers) for answer in each]
    assert (said.count("inserted"), said.count("unchanged")) == (18, 6)
    with open_archive(archive_url) as archive:
        assert sorted(t.repeat for t in archive.trials()) == list(range(1, 19))
        assert archive.verify() == []


@SQLITE_QUICKLY
@pytest.mark.fault("SIGKILL before every statement of record", ends="a rerun completes it", keeps="whole trials or none; verify is clean")
def test_a_writer_killed_at_any_point_leaves_a_whole_archive_and_a_rerun_completes_it(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        for statement in range(1, 100):
            writer = PROCESSES.Process(target=die_at, args=(archive_url, statement, statement))
            writer.start()
            writer.join(PATIENCE_S)
            if writer.exitcode == 0:
                break
            assert writer.exitcode == -signal.SIGKILL
            assert archive.verify() == []
            assert all(t.repeat != statement for t in archive.trials()), "a trial that was not committed must not be there"
            assert archive.record(document(trial(repeat=statement)), uri=URI) == "inserted"
        assert statement > 12, "the writer was to die at each of its statements"
        assert len(archive.trials()) == statement
        assert archive.verify() == []


@pytest.mark.full
@pytest.mark.fault(
    "SIGKILL before every statement of a correction", ends="a rerun completes it", keeps="the correction whole or not at all"
)
def test_a_correction_that_is_killed_at_any_point_is_whole_or_not_there(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        for statement in range(1, 100):
            archive.record(document(trial(repeat=statement)), uri=URI)
            writer = PROCESSES.Process(target=die_correcting_at, args=(archive_url, statement, statement))
            writer.start()
            writer.join(PATIENCE_S)
            if writer.exitcode == 0:
                break
            assert writer.exitcode == -signal.SIGKILL
            assert [t.attempt for t in archive.trials() if t.repeat == statement] == [1]
            said = archive.correct(document(trial(repeat=statement, attempt=2)), 1, by="ada", why="a test", uri=URI)
            assert said == "inserted"
        assert statement > 12, "the writer was to die at each of its statements"
        assert [t.corrected for t in archive.trials()] == [True, False] * statement
        assert archive.verify() == []


@pytest.mark.full
@pytest.mark.fault("SIGKILL in an import", ends="the next import completes it", keeps="whole campaigns or none")
def test_an_import_that_is_killed_at_any_point_is_completed_by_the_next_one(archive_url: str, tmp_path: Path) -> None:
    campaigns = ("2025-11", "2025-12")
    with open_archive(f"sqlite:///{tmp_path / 'source.db'}") as source:
        for campaign in campaigns:
            for repeat in (1, 2):
                source.record(document(trial(campaign=campaign, repeat=repeat)), uri=URI)
            source.correct(document(trial(campaign=campaign, repeat=2, attempt=2)), 1, by="ada", why="a test", uri=URI)
        wanted = source.export(tmp_path / "bundle")
    survived = False
    with open_archive(archive_url) as archive:
        for statement in range(2, 400, 7):
            writer = PROCESSES.Process(target=die_importing_at, args=(archive_url, tmp_path / "bundle", statement))
            writer.start()
            writer.join(PATIENCE_S)
            held = [c.campaign_id for c in archive.campaigns()]
            assert held == list(campaigns[: len(held)]), "each campaign whole, one after the other"
            assert len(archive.trials()) == 3 * len(held)
            assert archive.verify() == []
            survived = writer.exitcode == 0
            if survived:
                break
            assert writer.exitcode == -signal.SIGKILL
        assert survived
        assert statement > 30
        assert archive.export(tmp_path / "again") == wanted


@SQLITE_QUICKLY
@pytest.mark.fault(
    "SIGKILL at any statement of a migration", ends="the archive has the schema from before", keeps="every row; the next migration goes on"
)
def test_a_migration_that_is_killed_at_any_point_is_whole_or_not_there(archive_url: str, tmp_path: Path) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri=URI)
        archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "p", "price", "info", "dearer")])
        with newer_program(tmp_path) as after:
            pass
        for statement in range(1, 300, 4):  # a process for each costs seconds
            migration = PROCESSES.Process(target=die_migrating_at, args=(archive_url, tmp_path, statement))
            migration.start()
            migration.join(PATIENCE_S)
            if migration.exitcode == 0:
                break
            assert migration.exitcode == -signal.SIGKILL
            assert revision_of(archive.engine) == head()
        assert statement > 12, "the migration was to die at each of its statements"
        assert revision_of(archive.engine) == after
        assert [f.finding_id for f in archive.findings()] == ["f1"]
        assert archive.verify() == []


@pytest.mark.fault("three reviews at once", ends="one baseline, one finding each", keeps="no duplicates")
def test_two_reviewers_bootstrap_one_baseline_and_save_one_finding(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        for repeat in (1, 2):
            archive.record(document(trial(repeat=repeat)), uri=URI)
    start, answers = PROCESSES.Event(), PROCESSES.Queue()
    reviewers = [PROCESSES.Process(target=review, args=(archive_url, start, answers)) for _ in range(3)]
    said = together(reviewers, start, answers)
    assert sorted(str(baseline) for baseline, _ in said) == ["2025-11", "None", "None"]
    assert sorted(new for _, new in said) == [(), (), ("f1", "f2")]
    with open_archive(archive_url) as archive:
        assert [e.what for e in archive.audit()].count("baseline_accepted") == 1
        assert len(archive.findings()) == 2


def review(url: str, start: Any, answers: Any) -> None:
    from plumbline.declarations import DriftRules

    rules = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2}')
    found = [FindingRecord(name, trial().series_key, "2025-11", "lab-2core", "price", "info", "dearer") for name in ("f2", "f1")]
    with open_archive(url) as archive:
        start.wait()
        answers.put((archive.bootstrap_baseline(trial().series_key, rules), archive.save_findings(found)))
