"""A finished measurement outlives a store that is away: it waits for it, and in the end the log carries the document."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.fakes.trials import a_trial

from plumbline.harness import delivery
from plumbline.harness.delivery import DeliveryFailed, deliver, evidence_entries
from plumbline.harness.interruption import Interruption, interruptible
from plumbline.harness.measurement import EvidenceFile
from plumbline.results import Environment, Evidence, Reason, ResultDocument, ResultStore, Validity, log_transport
from plumbline.results.evidence_files import damaged_files

TRIAL = a_trial()


def seal(evidence: Sequence[Evidence], reasons: Sequence[Reason]) -> ResultDocument:
    return ResultDocument.sealed(
        trial=TRIAL,
        harness_version="1",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid", reasons=tuple(reasons)),
        evidence=tuple(evidence),
    )


class Bucket:
    """A store in memory that is away on demand, and the time that passes while somebody waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = OSError("no route to host")
        self.now = self.back_at = 0.0
        MemoryFileSystem.store.clear()
        real = MemoryFileSystem.pipe_file

        def pipe_file(*arguments: object, **more: object) -> None:
            if self.error is not None and not (self.back_at and self.now >= self.back_at):
                raise self.error
            real(*arguments, **more)

        monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe_file)
        monkeypatch.setattr(delivery, "time", self)
        self.store = ResultStore("memory://delivery", patience_s=0.0)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return Bucket(monkeypatch)


@pytest.fixture
def files(tmp_path: Path) -> list[EvidenceFile]:
    (tmp_path / "steps.parquet").write_bytes(b"steps")
    return [EvidenceFile("steps", tmp_path / "steps.parquet")]


@pytest.mark.fault("the store is away for two hours when a trial ends", ends="valid", keeps="the document, as it was measured")
def test_a_store_that_comes_back_within_the_trials_time_gets_the_document(bucket: Bucket, files: list[EvidenceFile]) -> None:
    bucket.back_at = 7200.0
    document = deliver(bucket.store, TRIAL, evidence_entries(files), seal, Interruption(), left_s=14400.0)
    assert bucket.store.document(bucket.store.folder(TRIAL)) == document
    assert document.validity.status == "valid" and damaged_files(bucket.store, document) == []
    assert 7200.0 <= bucket.now < 7300.0


def from_log(text: str) -> ResultDocument:
    read = log_transport.decode(text.encode())
    assert read is not None
    return ResultDocument.model_validate_json(read["result.json"])


@pytest.mark.fault("the store is away until the trial's deadline", ends="unreachable", keeps="document and evidence, in the pod's log")
@pytest.mark.parametrize("error", [OSError("no route to host"), PermissionError("expired token")])
def test_a_store_that_stays_away_leaves_the_document_in_the_log(
    bucket: Bucket, files: list[EvidenceFile], capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    bucket.error = error
    with pytest.raises(DeliveryFailed, match="to this log"):
        deliver(bucket.store, TRIAL, evidence_entries(files), seal, Interruption(), left_s=14400.0)
    document = from_log(capsys.readouterr().out)
    assert (document.validity.status, [item.uri for item in document.evidence]) == ("valid", ["evidence/steps.parquet"])
    refused = isinstance(error, PermissionError)
    assert bucket.now == 0.0 if refused else 14000.0 < bucket.now < 14400.0, "what is refused is not waited for"


def test_evidence_that_the_log_does_not_carry_is_named(
    bucket: Bucket, tmp_path: Path, files: list[EvidenceFile], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.bin").write_bytes(os.urandom(log_transport.MAX_ARCHIVE_BYTES))
    with pytest.raises(DeliveryFailed):
        deliver(
            bucket.store, TRIAL, evidence_entries([*files, EvidenceFile("trace", tmp_path / "trace.bin")]), seal, Interruption(), left_s=0.0
        )
    document = from_log(capsys.readouterr().out)
    assert [item.uri for item in document.evidence] == ["evidence/steps.parquet"]
    assert [reason.code for reason in document.validity.reasons] == ["evidence_left_out"]


@pytest.mark.fault("SIGTERM while a trial waits for its store", ends="unreachable", keeps="the document, in the pod's log")
def test_a_request_to_stop_ends_the_waiting(
    monkeypatch: pytest.MonkeyPatch, files: list[EvidenceFile], capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object, **__: object) -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        for _ in range(600):
            time.sleep(0.1)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", away)
    monkeypatch.setattr("plumbline.harness.interruption.STOP_BUDGET_S", 0.2)
    with interruptible() as interruption, pytest.raises(DeliveryFailed, match="time was over"):
        interruption.disarm()
        deliver(ResultStore("memory://hangs"), TRIAL, evidence_entries(files), seal, interruption, left_s=3600.0)
    assert from_log(capsys.readouterr().out).validity.status == "valid"
