"""Results of a pod that does not keep to the rules: each is quarantined with a class and a sentence, and its trial's other attempts are recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import CONFIG, PLANNED_AT, a_trial, cluster_provider

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.collect import collect
from plumbline.results import (
    Environment,
    Event,
    Evidence,
    LaunchRecord,
    PodRecord,
    ResultDocument,
    ResultStore,
    Validity,
    bounded_json,
    metric_row,
)
from plumbline.workflows.record import record_attempt

RAN = PodRecord(name="pl-a-0", rank=0, events=(Event(name="started", utc=PLANNED_AT, clock="cluster"),))
RECORD = LaunchRecord(launcher="kubernetes", events=(Event(name="requested", utc=PLANNED_AT, clock="launcher"),), pods=(RAN,), exit_code=0)
FORGED = RECORD.model_copy(update={"exit_code": 137, "failure_class": "out_of_memory", "failure_detail": "so the pod says"})


@pytest.fixture
def archive(archive_url: str) -> Iterator[Archive]:
    with open_archive(archive_url) as opened:
        yield opened


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    """The store that pods write to; the installation's own lies beside it."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    return ResultStore((tmp_path / "away").as_uri())


def launched(away: ResultStore, attempts: int = 2) -> list[Trial]:
    first = a_trial(provider=cluster_provider(results_url=away.url))
    trials = [first.model_copy(update={"attempt": number}) for number in range(1, attempts + 1)]
    for trial in trials:
        stores.home().put_trial(trial)
        stores.home().put_launch(trial, RECORD)
    return trials


def wrote(away: ResultStore, trial: Trial, files: dict[str, bytes], **changed: Any) -> ResultDocument:
    """What a pod leaves in its store: files, and a document that lists them."""
    for name, data in files.items():
        away.put(f"{away.folder(trial)}/{name}", data)
    listed = [
        Evidence(kind="log", uri=name, **{"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} | changed)
        for name, data in files.items()
    ]
    document = ResultDocument.sealed(
        trial=trial,
        harness_version="1",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        metrics=(metric_row("step_time", 0.1, 5),),
        evidence=tuple(listed),
    )
    away.put_document(document)
    return document


def home_files(tmp_path: Path) -> set[str]:
    return {str(path.relative_to(tmp_path / "home/results")) for path in (tmp_path / "home/results").rglob("*") if path.is_file()}


@pytest.mark.fault("a pod lists the launcher's record as evidence", ends="harness_error", keeps="the launcher's record")
@pytest.mark.parametrize("name", ["launch.json", "trial.json", "collected.json", "logs/evidence/x"])
def test_a_pod_writes_over_nothing_of_the_launcher(away: ResultStore, tmp_path: Path, name: str) -> None:
    (trial,) = launched(away, 1)
    wrote(away, trial, {name: FORGED.model_dump_json().encode(), "evidence/run.log": b"ok"})
    (found,) = collect(stores.home(), trial.campaign_id, trial.trial_id)
    assert found.launch == RECORD
    assert (found.validity.status, found.validity.failure_class) == ("failed", "harness_error")
    assert f"lists {name} as evidence" in found.validity.reasons[0].detail
    folder = stores.home().folder(trial)
    assert {f for f in home_files(tmp_path) if f.startswith(folder)} == {
        f"{folder}/{name}" for name in ("trial.json", "launch.json", "result.json", "collected.json")
    }
    assert collect(stores.home(), trial.campaign_id, trial.trial_id) == [found]


def test_evidence_comes_home_and_nothing_else(away: ResultStore, tmp_path: Path) -> None:
    (trial,) = launched(away, 1)
    away.put(f"{away.folder(trial)}/evidence/unlisted", b"x")
    document = wrote(away, trial, {"evidence/run.log": b"ok", "evidence/empty": b"", "evidence/node-1/run.log": b"two"})
    (found,) = collect(stores.home(), trial.campaign_id, trial.trial_id)
    assert found == document.with_launch(RECORD)
    names = {name.partition("/attempt-1/")[2] for name in home_files(tmp_path)}
    assert {name for name in names if name.startswith("evidence")} == {"evidence/run.log", "evidence/empty", "evidence/node-1/run.log"}


@pytest.mark.fault("an evidence file is not of the declared size", ends="harness_error", keeps="no more of it than was declared")
@pytest.mark.parametrize(("size", "said"), [(2**22, "has more than the 1 bytes"), (0, "has fewer than the 1 bytes"), (1, "has SHA-256")])
def test_declared_bytes_are_checked(away: ResultStore, size: int, said: str) -> None:
    (trial,) = launched(away, 1)
    wrote(away, trial, {"evidence/run.log": b"x" * size}, bytes=1, sha256="0" * 64)
    (found,) = collect(stores.home(), trial.campaign_id, trial.trial_id)
    assert found.validity.failure_class == "harness_error" and said in found.validity.reasons[0].detail
    kept = Path(stores.home().url.removeprefix("file://"), stores.home().folder(trial), "evidence/run.log")
    assert kept.stat().st_size <= 2**20
    assert collect(stores.home(), trial.campaign_id, trial.trial_id) == [found]


@pytest.mark.fault("a result lists more evidence than is declared", ends="harness_error", keeps="the document, no file of it")
@pytest.mark.parametrize("rule", ["most_files: 1", "most_bytes: 3B"])
def test_number_and_size_of_evidence_are_declared(away: ResultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/upkeep.yaml").write_text(f"evidence: {{{rule}}}")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    (trial,) = launched(away, 1)
    wrote(away, trial, {"evidence/a": b"12", "evidence/b": b"34"})
    (found,) = collect(stores.home(), trial.campaign_id, trial.trial_id)
    assert found.validity.failure_class == "harness_error"
    assert f"(evidence.{rule.partition(':')[0]})" in found.validity.reasons[0].detail
    assert not [name for name in home_files(tmp_path) if "/evidence/" in name]


def changed(data: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> bytes:
    change(data)
    return json.dumps(data).encode()


SPOILT: dict[str, Callable[[ResultDocument], bytes]] = {
    "deep": lambda document: b"[" * 200_000,
    "large": lambda document: b" " * (bounded_json.MAX_BYTES + 1),
    "65 bits": lambda document: changed(document.model_dump(mode="json"), lambda data: data["environment"]["facts"].update(n=2**70)),
    "NUL": lambda document: changed(document.model_dump(mode="json"), lambda data: data.update(harness_version="1\0")),
    "32 bits": lambda document: changed(document.model_dump(mode="json"), lambda data: data["metrics"][0].update(n=2**40)),
}


@pytest.mark.fault("a forged document: deep, huge, NUL, integers past 64 bits", ends="harness_error", keeps="the trial's other attempts")
@pytest.mark.parametrize("case", SPOILT)
def test_what_breaks_costs_no_other_attempt(archive: Archive, away: ResultStore, case: str) -> None:
    first, second = launched(away)
    away.put(f"{away.folder(first)}/result.json", SPOILT[case](wrote(away, first, {})))
    wrote(away, second, {"evidence/run.log": b"ok"})
    home = stores.home()
    spoilt, whole = collect(home, first.campaign_id, first.trial_id)
    assert (spoilt.validity.failure_class, whole.validity.status) == ("harness_error", "valid")
    assert [record_attempt(archive, home, home.folder(t), "accept", ()) for t in (first, second)] == ["inserted", "inserted"]
    (listed,) = archive.quarantined()
    assert listed.attempt == 1 and listed.reason == spoilt.validity.reasons[0].detail
    assert archive.verify(evidence=True) == []
    assert collect(home, first.campaign_id, first.trial_id) == [spoilt, whole]


@pytest.mark.fault("a collected document no longer fits its bounds", ends="quarantined", keeps="the trial's other attempts")
def test_a_collected_document_that_was_spoilt_is_quarantined(archive: Archive, away: ResultStore) -> None:
    first, second = launched(away)
    for trial in (first, second):
        wrote(away, trial, {})
    home = stores.home()
    collect(home, first.campaign_id, first.trial_id)
    home.put(f"{home.folder(first)}/collected.json", b"[" * 200_000)
    assert [record_attempt(archive, home, home.folder(t), "accept", ()) for t in (first, second)] == ["quarantined", "inserted"]
