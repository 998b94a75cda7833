"""Evidence goes when it is due, and only then; no crash on the way makes anybody miss it, or leaves it behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.fakes.installation import with_upkeep
from tests.fakes.trials import a_trial, put_evidence

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Trial
from plumbline.launch import collect, stores
from plumbline.results import Environment, ResultDocument, ResultStore, Validity, evidence_files
from plumbline.results.evidence_files import EXPIRED_FILE
from plumbline.workflows import record, retain


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own that keeps evidence for 30 days."""
    return with_upkeep(tmp_path, monkeypatch, "evidence: {keep: 30d, read_every: 3d}\n")


@pytest.fixture
def archive() -> Iterator[Archive]:
    with open_archive() as opened:
        yield opened


def measured(archive: Archive, tmp_path: Path, campaign: str, days_ago: int) -> Trial:
    """A trial that was measured so many days ago, with two raw files in the store."""
    at = datetime.now(timezone.utc) - timedelta(days=days_ago)
    trial = a_trial(campaign_id=campaign).model_copy(update={"planned_at": at})
    store = stores.home()
    store.put_trial(trial)
    entries = []
    for name in ("steps.parquet", "run.log"):
        (tmp_path / name).write_bytes(f"{campaign} {name}".encode())
        entries.append(put_evidence(store, trial, "log", tmp_path / name))
    document = ResultDocument.sealed(
        trial=trial,
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        evidence=tuple(entries),
    )
    store.put_document(document)
    archive.record(document, uri=store.uri(store.put_collected(document)))
    return trial


def files(store: ResultStore, trial: Trial) -> list[bool]:
    return [store.exists(f"{store.folder(trial)}/evidence/{name}") for name in ("steps.parquet", "run.log")]


@pytest.fixture
def trials(archive: Archive, tmp_path: Path) -> dict[str, Trial]:
    return {name: measured(archive, tmp_path, name, days) for name, days in (("old", 60), ("young", 10), ("now", 0))}


def test_what_is_due_goes_and_everything_still_holds(archive: Archive, trials: dict[str, Trial]) -> None:
    store, told = stores.home(), []
    assert retain.expire_evidence(archive, told.append).files == 2
    assert [files(store, trials[name]) for name in ("old", "young", "now")] == [[False] * 2, [True] * 2, [True] * 2]
    assert len(told) == 1 and "kept" not in told[0] and "evidence.keep: 30d" in told[0]
    assert archive.verify(evidence=True) == []
    assert archive.document(trials["old"].trial_id) is not None
    assert store.document(store.folder(trials["old"])).evidence, "the document says what there was"
    assert retain.expire_evidence(archive).files == 0


def test_a_dry_look_changes_nothing(archive: Archive, trials: dict[str, Trial]) -> None:
    found = retain.expired_evidence(archive)
    assert found is not None and [one.trial_id for one in found.due] == [trials["old"].trial_id]
    assert files(stores.home(), trials["old"]) == [True, True]
    assert archive.expired_evidence(stores.home().url) == []


def test_without_a_declaration_everything_stays(archive: Archive, trials: dict[str, Trial], config: Path) -> None:
    (config / "upkeep.yaml").unlink()
    assert retain.expired_evidence(archive) is None
    assert retain.expire_evidence(archive).attempts == 0
    assert files(stores.home(), trials["old"]) == [True, True]


@pytest.mark.fault("killed while aged evidence is deleted", ends="the next run goes on", keeps="numbers; evidence under its age")
def test_cut_short_before_the_files_are_gone_the_next_run_goes_on(archive: Archive, trials: dict[str, Trial]) -> None:
    def killed(line: str) -> None:
        raise KeyboardInterrupt

    archive.expire_evidence(*retain.retention_rule(), stores.home().url)  # type: ignore[misc]
    assert archive.verify(evidence=True) == [], "said, and not deleted yet"
    with pytest.raises(KeyboardInterrupt):
        retain.expire_evidence(archive, killed)
    assert files(stores.home(), trials["old"]) == [False, False]
    assert archive.verify(evidence=True) == [], "deleted, and not said yet"
    assert len(archive.expired_evidence(stores.home().url)) == 1
    assert retain.expire_evidence(archive).attempts == 1
    assert archive.expired_evidence(stores.home().url) == []


def test_who_collects_or_corrects_later_does_not_miss_it(archive: Archive, trials: dict[str, Trial]) -> None:
    retain.expire_evidence(archive)
    store, old = stores.home(), trials["old"]
    (again,) = collect.collect(store, old.campaign_id, old.trial_id)
    assert again.validity.status == "valid"
    assert not store.exists(f"quarantine/{store.folder(old)}/result.json")
    assert record.override_verdict(archive, old.trial_id, 1, "reject", "ada", "a neighbour") == 2
    assert archive.verify(evidence=True) == []
    copied = evidence_files.read_expired(store, f"old/{old.trial_id}/attempt-2")
    assert copied == evidence_files.read_expired(store, store.folder(old)) and store.exists(f"{store.folder(old)}/{EXPIRED_FILE}")


def test_each_day_reads_its_share_and_all_days_together_everything(archive: Archive, trials: dict[str, Trial]) -> None:
    day = date(2026, 11, 1)
    assert [retain.verify_archive(day + timedelta(days=n)) for n in range(3)] == [3] * 3
    store = stores.home()
    for trial in trials.values():
        store.put(f"{store.folder(trial)}/evidence/run.log", b"changed")
    said = []
    for n in range(3):
        try:
            retain.verify_archive(day + timedelta(days=n))
        except retain.BrokenArchive as error:
            said.append(str(error))
    assert len(said) == 3, "one trial a day, none twice"
    assert all(error.startswith("1 problem: ") and "run.log has SHA-256" in error and "archive verify" in error for error in said)
