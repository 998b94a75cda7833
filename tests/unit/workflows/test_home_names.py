"""A home whose name must be encoded in an address: every file lies in it, and what earlier versions wrote elsewhere is found."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.fakes.installation import CONFIG, declare_upkeep, own_home
from tests.fakes.trials import put_evidence
from tests.unit.workflows.test_record import measured

from plumbline.archive import Archive, open_archive
from plumbline.archive.backup import backup, restore
from plumbline.dashboard.app import create_app
from plumbline.declarations import installation_paths
from plumbline.embedded.doctor import databases, machine
from plumbline.launch import stores
from plumbline.launch.plan import RunRequest
from plumbline.results import ResultStore
from plumbline.workflows import collect, plan_trials, record, retain, validate
from plumbline.workflows.plan import TRIAL_GROUPS

STRANGE = "ada's füß %20 #1?"
CAMPAIGN = "2026-11"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own_home(tmp_path / "here" / STRANGE, monkeypatch)
    return tmp_path / "here" / STRANGE


def measure_campaign(folder: Path, repeats: int = 1) -> list[str]:
    """Plan, measure with one evidence file each, collect, check, record; the trials' ids."""
    specs = plan_trials.plan_trials("local-1core", TRIAL_GROUPS["training"], RunRequest(CAMPAIGN, "a test", repeats=repeats))
    store = stores.home()
    for spec in specs:
        trial = stores.next_attempt(stores.planned_trial(store, spec), store)
        store.put_trial(trial)
        (folder / "steps.json").write_text("[0.1]")
        store.put_document(measured(trial, ended=trial.planned_at, evidence=(put_evidence(store, trial, "log", folder / "steps.json"),)))
        collect.collect_trial(spec)
    recorded = record.record_group(validate.validate_group("local-1core", "training", specs))
    recorded.require_all()
    assert [row["recorded"] for row in recorded.done] == [["inserted"]] * len(specs)
    return [spec["trial_id"] for spec in specs]


@pytest.mark.fault("a home is called `ada's füß %20 #1?`", ends="used like any other", keeps="results, archive, evidence and backups in it")
def test_everything_of_a_strange_home_lies_in_it(home: Path, tmp_path: Path) -> None:
    (trial_id,) = measure_campaign(tmp_path)
    with open_archive() as archive:
        assert archive.verify(evidence=True) == []
        assert record.override_verdict(archive, trial_id, 1, "reject", "ada", "a neighbour") == 2
        assert archive.verify(evidence=True) == []
        assert archive.export(tmp_path / "bundle")
    done = backup(installation_paths().archive_url, home / "archive.backup")
    with TestClient(create_app(reports=home / "reports")) as client:
        assert client.get(f"/trials/{trial_id}").status_code == 200
        assert client.get(f"/trials/{trial_id}/evidence/0").content == b"[0.1]"
    assert databases.archive_database(installation_paths().archive_url).status == "ok"
    assert machine.result_store(installation_paths().results_url).status == "ok"
    with databases.read_only(installation_paths().archive_url) as connection:
        assert connection is not None
    (home / "archive.db").unlink()
    assert restore(installation_paths().archive_url, done.file).schema == done.schema
    with open_archive() as archive:
        assert len(archive.trials()) == 2
        assert archive.verify(evidence=True) == []
    assert {path.name for path in home.iterdir()} >= {"archive.db", "results", "archive.backup"}
    assert [path.name for path in home.parent.iterdir()] == [STRANGE], "nothing lies beside the home"


def as_an_earlier_version(home: Path) -> Path:
    """Move the results of a home to where earlier versions wrote them; the folder."""
    old = Path(installation_paths().results_url.removeprefix("file://"))
    old.parent.mkdir()
    (home / "results").rename(old)
    return old


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Archive, list[str]]]:
    """An archive in the home `my home` whose results lie in `my%20home`, and its trials."""
    own_home(tmp_path / "my home", monkeypatch, declare_upkeep(tmp_path, "evidence: {keep: 30d}\n"))
    trials = measure_campaign(tmp_path, repeats=2)
    as_an_earlier_version(tmp_path / "my home")
    with open_archive() as archive:
        yield archive, trials


@pytest.mark.fault("results of an earlier version lie in `my%20home`", ends="read there, and the doctor names it", keeps="every file")
def test_results_of_an_earlier_version_are_read_where_they_are(upgraded: tuple[Archive, list[str]], tmp_path: Path) -> None:
    archive, (first, second) = upgraded
    old = tmp_path / "my%20home" / "results"
    assert archive.verify(evidence=True) == []
    assert str(old) in machine.result_store(installation_paths().results_url).found
    store = stores.home()
    assert store.trial_ids(CAMPAIGN) == sorted([first, second])
    files = dict(store.objects())
    assert record.override_verdict(archive, first, 1, "reject", "ada", "a neighbour") == 2
    new = f"{CAMPAIGN}/{first}/attempt-2"
    assert (tmp_path / "my home" / "results" / new / "collected.json").is_file() and not (old / new).exists()
    assert store.attempts(CAMPAIGN, first) == [f"{CAMPAIGN}/{first}/attempt-1", new]
    assert set(files) < set(dict(store.objects()))
    assert archive.verify(evidence=True) == []
    with TestClient(create_app(reports=tmp_path / "reports")) as client:
        assert client.get(f"/trials/{second}/evidence/0").content == b"[0.1]"


def test_evidence_of_an_earlier_version_expires_there(upgraded: tuple[Archive, list[str]], tmp_path: Path) -> None:
    archive, trials = upgraded
    evidence = list((tmp_path / "my%20home").rglob("steps.json"))
    assert len(evidence) == 2
    due = archive.aged_evidence(timedelta(days=-400).total_seconds(), installation_paths().results_url)
    assert due.elsewhere == 0 and len(due.due) + sum(due.cited.values()) == 2
    store = stores.home()
    path = f"{CAMPAIGN}/{trials[0]}/attempt-1/evidence/steps.json"
    store.remove(path)
    assert not store.exists(path) and len([file for file in evidence if file.exists()]) == 1


@pytest.mark.fault("another installation's home is called `my%20home`", ends="left alone", keeps="each its own attempts")
def test_the_home_of_another_installation_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_home(tmp_path / "my%20home", monkeypatch)
    (theirs,) = measure_campaign(tmp_path)
    assert stores.home().attempts(CAMPAIGN, theirs)
    own_home(tmp_path / "my home", monkeypatch)
    assert stores.home().attempts(CAMPAIGN, theirs) == []
    assert not stores.home().exists(f"{CAMPAIGN}/{theirs}/attempt-1/result.json")
    folder = f"{stores.home().url}/{CAMPAIGN}/{theirs}/attempt-1"
    assert not ResultStore(folder).exists("result.json")
    assert measure_campaign(tmp_path) == [theirs]


@pytest.mark.fault("an earlier version put the archive beside its home", ends="refused, and the file is named", keeps="the archive")
def test_an_archive_that_an_earlier_version_put_elsewhere_is_named(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure_campaign(tmp_path)
    elsewhere = home.parent / "ada's füß   #1"
    with sqlite3.connect(home / "archive.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.move(home / "archive.db", elsewhere)
    with pytest.raises(ValueError, match=r"earlier versions put this archive at .*ada's füß   #1; expected it at .*archive\.db"):
        open_archive()
    assert not (home / "archive.db").exists()
    own_home(tmp_path / "here" / "ada's füß   #1?x" / "other", monkeypatch, CONFIG)
    shutil.move(elsewhere, home / "archive.db")
    own_home(home, monkeypatch)
    with open_archive() as archive:
        assert archive.verify(evidence=True) == []


def test_another_archive_at_the_earlier_address_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_home(tmp_path / "a b", monkeypatch)
    measure_campaign(tmp_path)
    own_home(tmp_path / "a%20b", monkeypatch)
    with open_archive() as archive:
        assert archive.is_empty()


def test_an_address_in_plain_letters_is_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_home(tmp_path / "my home", monkeypatch, declare_upkeep(tmp_path, "evidence: {keep: 30d}\n"))
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", f"file://{tmp_path}/my home/results")
    (trial_id,) = measure_campaign(tmp_path)
    with open_archive() as archive:
        assert " " in archive.trials()[0].uri
        monkeypatch.delenv("PLUMBLINE_RESULTS_URL")
        assert archive.verify(evidence=True) == []
        assert archive.files_elsewhere() == 0
        due = retain.expired_evidence(archive)
        assert due is not None and due.elsewhere == 0
    with TestClient(create_app(reports=tmp_path / "reports")) as client:
        assert client.get(f"/trials/{trial_id}/evidence/0").content == b"[0.1]"
