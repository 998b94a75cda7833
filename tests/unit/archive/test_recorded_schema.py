"""The schema that the other tests open their archives with is the one that the migrations create."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from tests.fakes.archive_schema import RecordedMigration

from plumbline.archive import migrate, open_archive
from plumbline.archive.engine import make_engine
from plumbline.archive.migrate import head, revision_of, upgrade
from plumbline.archive.schema import Base

GUARDS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT DISTINCT tgname FROM pg_trigger WHERE NOT tgisinternal",
}


def test_the_recorded_schema_is_the_migrated_one(archive_url: str) -> None:
    open_archive(archive_url).close()
    engine = make_engine(archive_url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert connection.execute(text(GUARDS[engine.dialect.name])).all()
    assert revision_of(engine) == head()
    engine.dispose()


def test_opening_uses_it_and_the_tests_of_the_migrations_do_not() -> None:
    assert isinstance(migrate.upgrade, RecordedMigration)
    assert not isinstance(upgrade, RecordedMigration)
