"""An imported file says nothing of what ran here: slots and monthly campaigns of its provider stay missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.trials import CONFIG
from tests.unit.formats.test_tool_files import DATA, FILES
from tests.unit.workflows.test_own_failures import DAG, NOW, Airflow

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, load
from plumbline.workflows.check_dags import SCHEDULE_WATCHED
from plumbline.workflows.check_installation import find_failures
from plumbline.workflows.import_results import import_benchmark_file
from plumbline.workflows.review import missing_data_findings


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setattr("plumbline.archive.engine.utc_now", lambda: NOW - timedelta(days=40))
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        opened.add_audit(who="plumbline", what=SCHEDULE_WATCHED, subject=DAG, why="a test")
        yield opened


@pytest.fixture
def declared() -> Declarations:
    known = load(CONFIG)
    return replace(known, providers={"local-1core": known.providers["local-1core"].model_copy(update={"enabled": True})})


def bring(archive: Archive, declared: Declarations, day: date, file: Path = DATA / FILES["perf_analyzer"]) -> None:
    """Import a file that was measured on that day."""
    import_benchmark_file(archive, declared, file, "perf_analyzer", "local-1core", "chat-tiny-cpu", day)


def test_an_imported_file_is_no_run_of_a_slot(archive: Archive, declared: Declarations) -> None:
    where = declared.providers["local-1core"]
    find_failures(archive, declared, Airflow(), NOW)
    bring(archive, declared, date(2026, 12, 31))
    missed = find_failures(archive, declared, Airflow(runs=False), NOW)[0]
    archive.record(document(trial(where=where, campaign="on-demand", planned_at=NOW)), uri="file:///s")
    assert find_failures(archive, declared, Airflow(runs=False), NOW)[0] == []
    assert [f.code for f in missed] == ["benchmark_missed"]


def test_an_imported_file_is_no_monthly_campaign(archive: Archive, declared: Declarations) -> None:
    now = datetime(2026, 12, 20, tzinfo=timezone.utc)
    before = missing_data_findings(archive, declared, "2026-11", now=now, unmeasured=True)
    bring(archive, declared, date(2026, 12, 19))
    after = missing_data_findings(archive, declared, "2026-11", now=now, unmeasured=True)
    assert [f.finding_id for f in after] == [f.finding_id for f in before] != []
