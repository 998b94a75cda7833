"""Brings an archive to the schema of this version. Migrations ship with the package; there is no ini file to find."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from plumbline.archive.engine import migrating

_MIGRATIONS = Path(__file__).with_name("migrations")


class UnknownSchema(RuntimeError):
    """The archive was written by a newer version."""


@cache
def head() -> str:
    """The revision that this version works with."""
    revision = _scripts().get_current_head()
    assert revision is not None
    return revision


def revision_of(engine: Engine) -> str | None:
    """The archive's revision; None if it is new."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Migrate up, under a lock; does nothing if the archive is there already. UnknownSchema if it is newer than this version."""
    if revision == "head" and revision_of(engine) == head():
        return
    with migrating(engine) as connection:
        _known(connection)
        command.upgrade(_config(connection), revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Migrate down, under a lock. What newer tables held is lost: meant for going back to an older version, after a copy was made."""
    with migrating(engine) as connection:
        _known(connection)
        command.downgrade(_config(connection), revision)


def _known(connection: Connection) -> None:
    current = MigrationContext.configure(connection).get_current_revision()
    known = known_revisions()
    if current is not None and current not in known:
        raise UnknownSchema(
            f"the archive has the schema {current}, which this version does not know (it knows up to {head()}); "
            "use the newer plumbline that wrote it, or downgrade the archive with that one first"
        )


def known_revisions() -> set[str]:
    """Every revision that this version can read."""
    return {script.revision for script in _scripts().walk_revisions()}


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(None))


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
