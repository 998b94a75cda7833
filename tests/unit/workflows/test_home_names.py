"""A home whose name must be encoded in an address: every file lies in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.fakes.installation import declare_upkeep, own_home
from tests.fakes.trials import put_evidence
from tests.unit.workflows.test_record import measured

from plumbline.archive import open_archive
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
