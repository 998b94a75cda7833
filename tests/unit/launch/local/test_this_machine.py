"""A trial is not started where its files do not fit."""

from __future__ import annotations

import sys
from collections import namedtuple
from pathlib import Path

import pytest
from tests.fakes.trials import a_trial

from plumbline.declarations import installation
from plumbline.launch.local.process_launcher import Allocation, ProcessRunner
from plumbline.results import ResultStore

Usage = namedtuple("Usage", "total used free")
FAILS = (sys.executable, "-c", "import sys; sys.exit('it was started')")


def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> tuple[str | None, str]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setattr(installation.shutil, "disk_usage", lambda _: Usage(2**40, 2**40 - free, free))  # type: ignore[attr-defined]
    store, trial = ResultStore((tmp_path / "results").as_uri()), a_trial()
    place = Allocation("local", "test-full-disk", None, 2.0**30, 30.0)
    record = ProcessRunner(FAILS, patience_s=5.0).launch(trial, store, place, None)
    assert store.launch(store.attempts(trial.campaign_id, trial.trial_id)[-1]) == record
    return record.failure_class, record.failure_detail or ""


@pytest.mark.fault("too little free disk before a trial", ends="quota_exceeded, not started", keeps="the launch record; retried later")
def test_a_trial_is_not_started_on_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, detail = launched(tmp_path, monkeypatch, 100 * 2**20)
    assert kind == "quota_exceeded"
    assert "0.10 GiB" in detail and str(tmp_path / "work") in detail


def test_a_trial_is_started_on_a_disk_with_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, detail = launched(tmp_path, monkeypatch, 2**38)
    assert kind == "harness_error" and "it was started" in detail
