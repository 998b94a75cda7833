"""Migrations: up and down on a populated archive, and models that agree with them."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError
from tests.data.price_readings import reading
from tests.data.result_documents import PLANNED, document, trial

from plumbline.archive import (
    FindingRecord,
    IncidentRecord,
    OldSchema,
    QuarantineRecord,
    SnapshotRecord,
    UnknownSchema,
    open_archive,
    schema,
)
from plumbline.archive.engine import make_engine
from plumbline.archive.migrate import downgrade, head, known_revisions, move, revision_of, upgrade
from plumbline.archive.schema import Base
from plumbline.declarations import DriftRules
from plumbline.results import Evidence

assert schema.Baseline.metadata is Base.metadata
STORED = Path(__file__).parents[2] / "data" / "archives"
"""Archives as earlier versions wrote them, as SQL text; each has a correction, a finding and a document in quarantine."""


def test_models_and_migrations_agree(archive_url: str) -> None:
    with open_archive(archive_url) as archive, archive.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []


def test_opening_again_migrates_nothing(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
    with open_archive(archive_url) as archive:
        assert revision_of(archive.engine) == head()
        assert len(archive.trials()) == 1


def test_down_and_up_again_keeps_what_was_measured(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        measured = document()
        archive.record(measured, uri="file:///store")
        archive.record(document(trial("inference")), uri="file:///store")
        archive.save_findings([FindingRecord("f1", "s", "2025-11", "p", "price", "info", "dearer")])
        before = archive.trials()
        downgrade(archive.engine, "0001")
        assert revision_of(archive.engine) == "0001"
        assert "findings" not in inspect(archive.engine).get_table_names()
        upgrade(archive.engine)
        assert archive.trials() == before
        assert archive.document(measured.trial.trial_id) == measured
        assert archive.findings() == []
        assert archive.verify() == []
        archive.save_findings([FindingRecord("f1", "s", "2025-11", "p", "price", "info", "dearer")])


def test_going_back_before_corrections_lets_the_old_rows_count_again_and_keeps_every_measurement(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
        archive.correct(document(trial(attempt=2)), 1, by="ada", why="a neighbour", uri="file:///store", action="reject")
        archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "p", "price", "info", "dearer")])
        archive.quarantine(QuarantineRecord("2025-11", "x", 1, "file:///store/x", "0" * 64, "newer"))
        assert archive.campaigns()[0].outcomes.usable == 0
        before = [(t.attempt, t.checksum) for t in archive.trials()]
        downgrade(archive.engine, "0002")
        assert {"corrections", "quarantine"}.isdisjoint(inspect(archive.engine).get_table_names())
        upgrade(archive.engine)
        assert [(t.attempt, t.checksum) for t in archive.trials()] == before
        assert archive.campaigns()[0].outcomes.usable == 1
        assert archive.quarantined() == []
        assert [f.finding_id for f in archive.findings()] == ["f1"]
        assert [e.what for e in archive.audit(f"{trial().trial_id}#1")] == ["measurement_corrected"], "that it was said stays in the log"
        assert archive.verify() == []
        assert archive.correct(document(trial(attempt=2)), 1, by="ada", why="again", uri="file:///store", action="reject") == "unchanged"
        assert archive.campaigns()[0].outcomes.usable == 0


def test_going_back_before_baselines_of_several_campaigns_keeps_each_series_first_one(archive_url: str) -> None:
    rules = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 1}')
    key, other = trial().series_key, trial("inference").series_key
    with open_archive(archive_url) as archive:
        for month in (1, 2, 3):
            for kind in ("training", "inference"):
                asked = trial(kind, campaign=f"2026-0{month}", planned_at=PLANNED + timedelta(days=30 * month))
                archive.record(document(asked), uri="file:///store")
        for series_key in (key, other):
            archive.bootstrap_baseline(series_key, rules)
        assert archive.join_baseline(key, "2026-02", rules) and archive.join_baseline(key, "2026-03", rules)
        archive.accept_baseline(other, "2026-02", by="ada", why="a new driver")
        log = archive.audit()
        downgrade(archive.engine, "0003")
        upgrade(archive.engine)
        assert archive.baseline(key) == ["2026-01"]
        assert [b.campaign_id for b in archive.baseline_history(other)] == ["2026-01", "2026-02"]
        assert archive.audit() == log
        assert archive.join_baseline(key, "2026-02", rules), "the rule goes on from there"
        assert archive.verify() == []


def test_going_back_before_readings_and_snapshots_keeps_the_accepted_prices(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record_readings([reading(1)])
        archive.save_snapshot(SnapshotRecord("lab-2core", "cluster", PLANNED, {"gpu.count": 8}))
        accepted = archive.accept_price("lab-2core", "on_demand", None, 1.25, PLANNED.date(), "contract 7", by="ada", why="signed")
        downgrade(archive.engine, "0004")
        assert {"price_readings", "snapshots"}.isdisjoint(inspect(archive.engine).get_table_names())
        upgrade(archive.engine)
        assert archive.price_readings("lab-2core") == archive.snapshots("lab-2core") == []
        assert archive.accepted_price("lab-2core", "on_demand") == accepted
        assert archive.record_readings([reading(1)]) == (reading(1).reading_id,)
        assert archive.verify() == []


def test_all_the_way_down_leaves_nothing_behind(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
        downgrade(archive.engine, "base")
        assert inspect(archive.engine).get_table_names() == ["alembic_version"]
        upgrade(archive.engine)
        assert archive.trials() == []


@pytest.mark.parametrize("file", sorted(STORED.glob("schema-*.sql")), ids=lambda file: file.stem)
def test_a_stored_archive_of_an_earlier_version_is_upgraded(file: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    stored = sqlite3.connect(tmp_path / "archive.db")
    stored.executescript(file.read_text())
    stored.close()
    engine = make_engine(url)
    assert f"schema-{revision_of(engine)}" == file.stem
    engine.dispose()
    with open_archive(url, migrate=True) as archive:
        assert revision_of(archive.engine) == head()
        assert [(t.attempt, t.corrected) for t in archive.trials()] == [(1, False), (1, True), (2, False)]
        assert archive.findings()[0].finding_id == "f1"
        assert len(archive.quarantined()) == 1
        assert archive.verify() == []


@pytest.mark.fault("a newer program opens a shared archive of an older schema", ends="refused: OldSchema", keeps="the archive as it is")
def test_opening_does_not_migrate_a_shared_archive(archive_url: str) -> None:
    open_archive(archive_url).close()
    engine = make_engine(archive_url)
    before = sorted(known_revisions())[-2]
    downgrade(engine, before)
    with pytest.raises(OldSchema, match=f"has the schema {before}.*plumbline archive migrate"):
        open_archive(archive_url)
    assert revision_of(engine) == before
    open_archive(archive_url, migrate=True).close()
    assert revision_of(engine) == head()
    engine.dispose()


def test_the_installations_own_archive_is_migrated_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    with open_archive() as archive:
        downgrade(archive.engine, "0007")
    with open_archive() as archive:
        assert revision_of(archive.engine) == head()


def test_moving_to_a_schema(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        assert move(archive.engine) == (head(), head())
        with pytest.raises(ValueError, match="deletes what newer tables hold"):
            move(archive.engine, "0007")
        assert revision_of(archive.engine) == head()
        assert move(archive.engine, "0007", may_lose=True) == (head(), "0007")
        assert move(archive.engine, "0008") == ("0007", "0008")
        with pytest.raises(LookupError, match='no schema "7777"; expected one of 0001 to'):
            move(archive.engine, "7777")


@pytest.mark.fault("an older program opens an archive of a newer schema", ends="refused: UnknownSchema", keeps="the archive as it is")
def test_an_archive_of_a_newer_version_is_left_alone(archive_url: str) -> None:
    with open_archive(archive_url) as archive, archive.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnknownSchema, match=f"has the schema 9999, which this version does not know .it knows up to {head()}"):
        open_archive(archive_url)
    engine = make_engine(archive_url)
    assert revision_of(engine) == "9999"
    engine.dispose()


def test_a_migration_that_breaks_a_reference_is_undone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """SQLite's references are off while tables are rebuilt, so they are checked before the commit."""
    from sqlalchemy.exc import OperationalError

    from plumbline.archive.engine import migrating

    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        with pytest.raises(OperationalError, match="point to nothing"), migrating(archive.engine) as connection:
            connection.execute(text("DELETE FROM campaigns"))
        assert len(archive.campaigns()) == 1
        assert archive.verify() == []


def test_going_back_before_retention_misses_what_expired_and_keeps_every_row_of_the_evidence(archive_url: str) -> None:
    files = (Evidence(kind="steps", uri="evidence/steps", sha256="a" * 64, bytes=1),)
    with open_archive(archive_url) as archive:
        for month in (11, 12):
            asked = trial(campaign=f"2025-{month}", planned_at=PLANNED.replace(month=month))
            archive.record(document(asked, evidence=files), uri=f"file:///store/{asked.campaign_id}/{asked.trial_id}/attempt-1")
        assert len(archive.expire_evidence(0.0, "at once", "file:///store").due) == 1
        assert len(archive.verify(evidence=True)) == 1
        downgrade(archive.engine, "0007")
        assert "expired_evidence" not in inspect(archive.engine).get_table_names()
        upgrade(archive.engine)
        assert archive.expired_evidence("file:///store") == []
        assert len(archive.verify(evidence=True)) == 2


def test_going_back_before_findings_about_the_installation_removes_those_and_no_other(archive_url: str) -> None:
    own = FindingRecord("s1", "", None, "plumbline", "self", "page", "the triggerer is away")
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
        archive.save_findings([own, FindingRecord("f1", "s", trial().campaign_id, "p", "price", "info", "dearer")])
        archive.save_incident(IncidentRecord("s1", "C1", "1.0", "open", "hash"))
        downgrade(archive.engine, "0009")
        with pytest.raises(IntegrityError):
            archive.save_findings([own])
        upgrade(archive.engine)
        assert [f.finding_id for f in archive.findings()] == ["f1"]
        assert archive.save_findings([own]) == ("s1",)
        with pytest.raises(IntegrityError):
            archive.save_findings([replace(own, finding_id="s2", severity="dire")])  # type: ignore[arg-type]
        assert {i["name"] for i in inspect(archive.engine).get_indexes("findings")} >= {"ix_findings_provider_opened_at"}
        assert archive.verify() == []
