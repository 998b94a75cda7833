"""Migrations: up and down on a populated archive, and models that agree with them."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from tests.data.result_documents import document, trial

from plumbline.archive import FindingRecord, QuarantineRecord, UnknownSchema, judgements, open_archive
from plumbline.archive.engine import make_engine
from plumbline.archive.migrate import downgrade, head, revision_of, upgrade
from plumbline.archive.models import Base

assert judgements.Baseline.metadata is Base.metadata


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


def test_all_the_way_down_leaves_nothing_behind(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
        downgrade(archive.engine, "base")
        assert inspect(archive.engine).get_table_names() == ["alembic_version"]
        upgrade(archive.engine)
        assert archive.trials() == []


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
