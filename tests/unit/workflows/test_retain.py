"""What the upkeep deletes by `keep`, and what it leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.installation import with_upkeep

from plumbline.archive import Archive, QuarantineRecord, open_archive
from plumbline.declarations import installation_paths
from plumbline.launch import stores
from plumbline.results import Evidence
from plumbline.workflows.retain import delete_old_data, delete_old_files, delete_old_logs, folder_bytes, storage_sizes, verify_archive

DAY = 86400.0


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return with_upkeep(tmp_path, monkeypatch)


@pytest.fixture
def archive() -> Iterator[Archive]:
    with open_archive() as opened:
        yield opened


def written(file: Path, days_ago: float, text: str = "x" * 10) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    at = time.time() - days_ago * DAY
    for path in (file, file.parent):
        os.utime(path, (at, at))
    return file


def test_old_logs_go_with_their_empty_folders(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    old = written(logs / "dag_id=a" / "run_id=1" / "task_id=run" / "attempt=1.log", 100)
    young = written(logs / "dag_id=a" / "run_id=2" / "attempt=1.log", 10)
    done = delete_old_files(logs, time.time() - 90 * DAY)
    assert (done.removed, done.bytes) == (1, 10)
    assert not old.parent.parent.exists() and young.exists()
    assert delete_old_files(tmp_path / "missing", time.time()).removed == 0


@pytest.mark.fault(
    "logs, pages and copies grow for years", ends="`keep` in upkeep.yaml, applied nightly", keeps="measurements, and the newest of each"
)
def test_each_part_is_kept_as_long_as_declared(archive: Archive, config: Path, tmp_path: Path) -> None:
    here = installation_paths()
    for folder in (here.reports, here.data_docs):
        for name, days in (("2024-01", 700), ("2025-01", 500), ("2026-01", 10)):
            written(folder / name / "index.html", days)
    home = stores.home()
    uri = home.uri("quarantine/2025-11/x/attempt-1/result.json")
    home.put("quarantine/2025-11/x/attempt-1/result.json", b"{")
    home.put("quarantine/2025-11/x/attempt-1/result.json.reason.json", b"{}")
    archive.quarantine(QuarantineRecord("2025-11", "x", 1, uri, "0" * 64, "cut short"))
    later = time.time()
    done = {one.part: one.removed for one in delete_old_data(archive, tmp_path / "logs", later)}
    assert done == {"logs": 0, "data_docs": 2, "reports": 2, "quarantine": 0, "snapshots": 0, "observations": 0}
    assert [f.name for f in here.reports.iterdir()] == ["2026-01"]
    assert len(archive.quarantined()) == 1 and home.exists("quarantine/2025-11/x/attempt-1/result.json")


def test_the_newest_stays_and_null_keeps_for_ever(archive: Archive, config: Path, tmp_path: Path) -> None:
    (config / "upkeep.yaml").write_text("keep: {reports: null, logs: 1d}\n")
    here = installation_paths()
    for name, days in (("2023-01", 1000), ("2024-01", 700)):
        written(here.reports / name / "report.html", days)
        written(here.data_docs / name / "index.html", days)
    done = {one.part: one.removed for one in delete_old_data(archive, tmp_path / "logs")}
    assert "reports" not in done and len(list(here.reports.iterdir())) == 2
    assert [f.name for f in here.data_docs.iterdir()] == ["2024-01"]


def test_a_quarantined_copy_goes_with_its_row(archive: Archive, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import datetime, timedelta, timezone

    from plumbline.archive import engine

    home = stores.home()
    path = "quarantine/2025-11/x/attempt-1/result.json"
    for name in (path, f"{path}.reason.json"):
        home.put(name, b"{}")
    archive.quarantine(QuarantineRecord("2025-11", "x", 1, home.uri(path), "0" * 64, "cut short"))
    monkeypatch.setattr(engine, "utc_now", lambda: datetime.now(timezone.utc) + timedelta(days=401))
    done = {one.part: one.removed for one in delete_old_data(archive, tmp_path / "logs")}
    assert done["quarantine"] == 1
    assert archive.quarantined() == [] and not home.exists(path) and not home.exists(f"{path}.reason.json")
    assert archive.verify(evidence=True) == []


@pytest.mark.fault(
    "a campaign of another machine is imported", ends="its files are counted as elsewhere", keeps="nightly verification and retention"
)
def test_an_imported_campaign_ends_no_retention(archive: Archive, config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    item = Evidence(kind="log", uri="evidence/log", sha256="0" * 64, bytes=1)
    with open_archive(f"sqlite:///{tmp_path / 'laptop.db'}") as laptop:
        laptop.record(document(evidence=[item]), uri="file:///home/ada/results/x")
        laptop.quarantine(
            QuarantineRecord(trial().campaign_id, "x", 1, "file:///home/ada/results/quarantine/x/result.json", "0" * 64, "cut short")
        )
        laptop.export(tmp_path / "bundle")
    assert archive.import_(tmp_path / "bundle")[0].refused is None
    caplog.set_level("INFO")
    verify_archive(date(2026, 1, 1))
    assert "2 files of evidence elsewhere" in caplog.text and archive.files_elsewhere() == 2


def test_sizes_of_every_part(archive: Archive) -> None:
    here, home = installation_paths(), stores.home()
    home.put("2025-11/t/attempt-1/result.json", b"12345")
    home.put("2025-11/t/attempt-1/evidence/steps.json", b"123")
    home.put("quarantine/2025-11/x/attempt-1/result.json", b"1")
    written(here.reports / "2025-11" / "report.html", 1)
    parts = {part.part: part for part in storage_sizes(archive).parts}
    assert {name: (parts[name].files, parts[name].bytes) for name in ("store", "evidence", "quarantine", "reports", "logs")} == {
        "store": (1, 5),
        "evidence": (1, 3),
        "quarantine": (1, 1),
        "reports": (1, 10),
        "logs": (0, 0),
    }
    assert (parts["evidence"].keep, parts["reports"].keep) == ("for ever", "400d")
    assert (parts["tables"].bytes or 0) > 0
    assert folder_bytes(here.home / "nothing") == (0, 0)


def test_in_an_airflow_that_others_use_only_our_logs_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, config = tmp_path / "logs", tmp_path / "theirs"
    for dag_id in ("drift_review", "benchmark_local_1core", "their_etl"):
        (logs / f"dag_id={dag_id}" / "run_id=r").mkdir(parents=True)
        (logs / f"dag_id={dag_id}" / "run_id=r" / "attempt=1.log").write_text("old")
    config.mkdir()
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    (config / "airflow.yaml").write_text('dag_prefix: ""\n')
    assert delete_old_logs(logs, time.time() + DAY).removed == 2
    assert [path.parent.parent.name for path in logs.rglob("*.log")] == ["dag_id=their_etl"]
    (config / "airflow.yaml").unlink()
    assert delete_old_logs(logs, time.time() + DAY).removed == 1
