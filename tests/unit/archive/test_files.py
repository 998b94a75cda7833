"""verify with evidence: every file that the archive points to is read, and what is missing or changed is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial

from plumbline.archive import Archive, QuarantineRecord
from plumbline.results import Evidence


@pytest.fixture
def filled(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of one trial's evidence."""
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", tmp_path.as_uri())
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


@pytest.mark.fault(
    "a row names a page, a device or another store",
    ends="refused, or counted as elsewhere",
    keeps="nothing outside of the declared stores is read",
)
@pytest.mark.parametrize(
    "address",
    [
        "nosuchstore://somewhere",
        "http://127.0.0.1:1/latest/meta-data",
        "file:///dev",
        "file:///store-of-another/a",
        "file:///store/../dev",
        "file:///store/a::http://127.0.0.1:1/x",
        "s3://theirs/results/a",
        "github://org:repo@/x",
    ],
)
def test_only_declared_stores_are_read(archive: Archive, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", "file:///store")
    entry = Evidence(kind="log", uri="zero", sha256="0" * 64, bytes=1)
    archive.record(document(evidence=[entry]), uri=address)
    problems = archive.verify(evidence=True)
    if address in ("file:///dev", "file:///store-of-another/a", "s3://theirs/results/a"):
        assert (problems, archive.files_elsewhere()) == ([], 1), "another machine's store is no damage"
        return
    (problem,) = problems
    assert "cannot be read" in problem and address in problem and "expected" in problem and archive.files_elsewhere() == 0


def test_a_further_store_can_be_declared(archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "upkeep.yaml").write_text(f"evidence: {{stores: [{tmp_path.as_uri()}/theirs]}}")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path))
    entry = Evidence(kind="log", uri="evidence/log", sha256="0" * 64, bytes=1)
    archive.record(document(evidence=[entry]), uri=f"{tmp_path.as_uri()}/theirs/a")
    (problem,) = archive.verify(evidence=True)
    assert problem.endswith("is missing")


def test_evidence_larger_than_a_document_is_read_in_pieces(archive: Archive, filled: Path) -> None:
    data = b"x" * (9 * 2**20)
    (filled / "evidence/large").write_bytes(data)
    entry = Evidence(kind="log", uri="evidence/large", sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    archive.record(document(trial(repeat=2), evidence=[entry]), uri=filled.as_uri())
    assert archive.verify(evidence=True) == []
    with (filled / "evidence/large").open("ab") as file:
        file.write(b"x" * 2**20)
    (problem,) = archive.verify(evidence=True)
    assert "has more than" in problem
