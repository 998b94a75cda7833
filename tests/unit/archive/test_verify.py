"""verify: silent on a sound archive, and it names each kind of damage."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import Connection, text
from tests.data.result_documents import PLANNED, document, failed, trial

from plumbline.archive import Archive, SnapshotRecord
from plumbline.results import InvalidResult

NAME = trial().trial_id


@pytest.fixture
def filled(archive: Archive) -> Archive:
    archive.record(document(), uri="file:///store")
    archive.record(failed(trial(repeat=2)), uri="file:///store")
    archive.record(document(trial("inference")), uri="file:///store", action="annotate")
    archive.save_snapshot(SnapshotRecord("lab-2core", "cluster", PLANNED, {"gpu.count": 8}))
    return archive


def damage(archive: Archive, *statements: str) -> None:
    """Change rows behind the archive's back, as a careless hand with a database shell would."""
    with archive.engine.connect() as connection:
        _unprotect(connection)
        for statement in statements:
            connection.execute(text(statement))
        connection.commit()


def _unprotect(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET session_replication_role = replica"))
        return
    connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
    for table in ("trials", "metrics", "documents", "environments", "snapshots"):
        connection.execute(text(f"DROP TRIGGER {table}_no_update"))


def test_a_sound_archive_has_no_problems(filled: Archive) -> None:
    assert filled.verify() == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE trials SET spec_hash = 'x' WHERE repeat = 2", r"gpt-test.*r2#1: spec_hash is x; its document says [0-9a-f]{64}"),
        ("UPDATE trials SET status = 'valid', failure_class = NULL WHERE repeat = 2", "status is valid; its document says failed"),
        ("UPDATE trials SET checksum = 'x' WHERE repeat = 2", "checksum is x; its document says"),
        ("UPDATE metrics SET value = 0.001 WHERE metric = 'step_time' AND statistic = 'median'", "step_time median is 0.001; its document says 0.1"),
        ("DELETE FROM metrics WHERE metric = 'goodput'", "steady goodput value is in its document but not in the archive"),
        ("DELETE FROM documents", "its document is missing"),
        ("UPDATE environments SET facts = '{}'", "environment .*: the facts hash to"),
        ("UPDATE snapshots SET facts = '{}'", "snapshot .* of lab-2core: the facts hash to"),
        ("DELETE FROM environments", "trials: 2 rows name a environment_hash that environments does not have"),
        ("DELETE FROM campaigns", "series_campaigns: 2 rows name a campaign_id that campaigns does not have"),
        ("DELETE FROM trials WHERE repeat = 2", "documents: 1 rows name a trial_pk that trials does not have"),
    ],
)  # fmt: skip
@pytest.mark.fault("rows of the archive are damaged", ends="verify names each", keeps="the rest")
def test_damage_is_named(filled: Archive, statement: str, problem: str) -> None:
    damage(filled, statement)
    assert any(re.search(problem, found) for found in filled.verify()), filled.verify()


@pytest.mark.fault("a document in the archive was changed", ends="verify names it", keeps="the check of all others")
def test_a_changed_document_is_named_and_does_not_end_the_check(filled: Archive) -> None:
    honest = filled.document(NAME)
    assert honest is not None
    forged = honest.model_dump_json().replace('"value":0.1,', '"value":0.01,', 1)
    with filled.engine.connect() as connection:
        _unprotect(connection)
        from plumbline.archive.schema import Document

        connection.execute(Document.__table__.update().where(Document.trial_pk == 1).values(content=forged))
        connection.execute(text("UPDATE documents SET content = :junk WHERE trial_pk = 2"), {"junk": b"junk"})
        connection.commit()
    with pytest.raises(InvalidResult, match=f"{NAME}#1 .*checksum is"):
        filled.document(NAME)
    problems = filled.verify()
    assert len(problems) == 2
    assert re.search(rf"^{NAME}#1: .*checksum is", problems[0])
    assert "r2#1: " in problems[1]
