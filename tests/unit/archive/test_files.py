"""verify with evidence: every file that the archive points to is read, and what is missing or changed is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial

from plumbline.archive import Archive, QuarantineRecord
from plumbline.results import Evidence


@pytest.fixture
def filled(archive: Archive, tmp_path: Path) -> Path:
    """The folder of one trial's evidence."""
    folder = tmp_path / "results" / "attempt-1"
    (folder / "evidence").mkdir(parents=True)
    entries = []
    for name in ("steps", "log"):
        (folder / f"evidence/{name}").write_bytes(name.encode())
        entries.append(Evidence(kind=name, uri=f"evidence/{name}", sha256=hashlib.sha256(name.encode()).hexdigest(), bytes=len(name)))
    archive.record(document(evidence=entries), uri=folder.as_uri())
    held = tmp_path / "held.json"
    held.write_bytes(b"{")
    archive.quarantine(QuarantineRecord("2025-11", "x", 1, held.as_uri(), hashlib.sha256(b"{").hexdigest(), "cut short"))
    return folder


def test_files_that_are_as_they_were(archive: Archive, filled: Path) -> None:
    assert archive.verify(evidence=True) == []


def test_missing_and_changed_files_are_named(archive: Archive, filled: Path, tmp_path: Path) -> None:
    (filled / "evidence/steps").unlink()
    (filled / "evidence/log").write_bytes(b"Log")
    (tmp_path / "held.json").write_bytes(b"{}")
    assert archive.verify() == []
    steps, log, held = archive.verify(evidence=True)
    assert steps == f"{trial().trial_id}#1: evidence {filled.as_uri()}/evidence/steps is missing"
    assert f"{filled.as_uri()}/evidence/log has SHA-256" in log
    assert "held.json has SHA-256" in held


def test_a_store_that_nobody_can_open_is_named(archive: Archive) -> None:
    entry = Evidence(kind="log", uri="evidence/log", sha256="0" * 64, bytes=1)
    archive.record(document(evidence=[entry]), uri="nosuchstore://somewhere")
    (problem,) = archive.verify(evidence=True)
    assert "cannot be read" in problem
