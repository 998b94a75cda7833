"""Creates an archive's schema with its protection against changed rows, and migrates an archive of another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, Connection, Engine, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, text

from plumbline.archive.engine import migrating
from plumbline.archive.schema import Base

if TYPE_CHECKING:
    from alembic.config import Config


# Alembic is imported where it migrates: opening an archive of this version's schema does not wait for it.
_MIGRATIONS = Path(__file__).with_name("migrations")
# Alembic's own table, as Alembic makes it.
_REVISION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


class SchemaMismatch(RuntimeError):
    """The archive has another schema than this version; the message gives the remedy. Nothing was changed."""


class UnknownSchema(SchemaMismatch):
    """The archive was written by a newer version."""


class OldSchema(SchemaMismatch):
    """The archive has an older schema: a shared one, which only a person or an installation step migrates, or one that is too old."""


@cache
def head() -> str:
    """The revision that this version works with."""
    return max(revisions())


def revisions() -> set[str]:
    """Every revision that this version knows."""
    return {script.name[1:5] for script in (_MIGRATIONS / "versions").glob("v[0-9]*.py")}


def revision_of(engine: Engine) -> str | None:
    """The archive's revision; None if it is new."""
    with engine.connect() as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def prepare(engine: Engine, migrate: bool) -> None:
    """Create the schema in an empty database; of an older archive, migrate it if `migrate`, else raise OldSchema. UnknownSchema if it is newer."""
    current = revision_of(engine)
    if current == head():
        return
    if current is None or migrate:
        upgrade(engine)
        return
    check_revision(current, _place(engine))


def check_revision(current: str | None, place: str = "") -> None:
    """Raise UnknownSchema or OldSchema unless `current` is the revision of this version.

    `place`: file or address of the archive, for the message."""
    if current == head():
        return
    if current is not None and current > head():
        raise UnknownSchema(
            f"the archive has the schema {current}, which this version does not know (it knows up to {head()}); "
            "use the newer plumbline that wrote it, or restore a backup that was made before the upgrade"
        )
    if current is not None and current not in revisions():
        raise OldSchema(
            f"the archive{f' {place}' if place else ''} has the schema {current}, from before the first release; this version migrates "
            f"{min(revisions())} and newer ones. Export the campaigns with the version that wrote the archive (plumbline archive export), "
            "then import them into a new archive"
        )
    raise OldSchema(
        f"the archive has the schema {current}; this version works with {head()} and does not migrate a shared archive by opening it; "
        "back it up and run `plumbline archive migrate`, or use the version that wrote it until then"
    )


def upgrade(engine: Engine) -> None:
    """Migrate to this version's schema, or create it in an empty database, under a lock. UnknownSchema or OldSchema if there is no way."""
    with migrating(engine) as connection:
        current = _revision(connection)
        if current is None:
            Base.metadata.create_all(connection, checkfirst=False)
            protect_all(connection)
            _REVISION.create(connection)
            connection.execute(insert(_REVISION), {"version_num": head()})
        elif current != head():  # else another process was first
            from alembic import command

            if current not in revisions():
                check_revision(current, _place(engine))
            command.upgrade(_config(connection), "head")


def _place(engine: Engine) -> str:
    """The archive's file, or its address without the password."""
    return (engine.dialect.name == "sqlite" and engine.url.database) or engine.url.render_as_string()


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


_PROTECTED = {
    **dict.fromkeys(("environments", "trials", "documents", "metrics", "stages", "telemetry", "evidence"), ("UPDATE",)),
    **dict.fromkeys(("audit", "corrections", "price_readings", "operations_log"), ("UPDATE", "DELETE")),
    "expired_evidence": ("DELETE",),
    **dict.fromkeys(("snapshots", "observations"), ("UPDATE",)),
}


def protect_all(connection: Connection) -> None:
    """The triggers of a new archive."""
    for table, operations in _PROTECTED.items():
        protect(connection, table, operations)
    _protect_changes_of_facts(connection)


def protect(connection: Connection, table: str, operations: Sequence[str]) -> None:
    """Make each of these operations (UPDATE, DELETE) on the table an error that says why."""
    if connection.dialect.name == "sqlite":
        for operation in operations:
            _execute(connection, f"CREATE TRIGGER {table}_no_{operation.lower()} BEFORE {operation} ON {table} BEGIN {_abort(table)}; END")
        return
    _execute(connection, _function(f"{table}_append_only", f"RAISE EXCEPTION '{_message(table)}';"))
    for operation in operations:
        trigger = f"CREATE TRIGGER {table}_no_{operation.lower()} BEFORE {operation} ON {table}"
        _execute(connection, f"{trigger} FOR EACH ROW EXECUTE FUNCTION {table}_append_only()")


def _protect_changes_of_facts(connection: Connection) -> None:
    """A snapshot may be deleted if the ones before and after it hold the same facts."""

    def neighbour(sign: str, order: str) -> str:
        return (
            "(SELECT facts_hash FROM snapshots s WHERE s.provider = OLD.provider AND s.kind = OLD.kind "
            f"AND (s.taken_at, s.snapshot_id) {sign} (OLD.taken_at, OLD.snapshot_id) "
            f"ORDER BY s.taken_at {order}, s.snapshot_id {order} LIMIT 1)"
        )

    # Not known counts as different: the first and the last one have a neighbour on one side only.
    repeats = f"coalesce({neighbour('<', 'DESC')} = OLD.facts_hash AND {neighbour('>', 'ASC')} = OLD.facts_hash, FALSE)"
    trigger = "CREATE TRIGGER snapshots_no_delete BEFORE DELETE ON snapshots"
    if connection.dialect.name == "sqlite":
        _execute(connection, f"{trigger} WHEN NOT {repeats} BEGIN {_abort('snapshots')}; END")
        return
    body = f"IF {repeats} THEN RETURN OLD; END IF; RAISE EXCEPTION '{_message('snapshots')}';"
    _execute(connection, _function("snapshots_said_twice", body))
    _execute(connection, f"{trigger} FOR EACH ROW EXECUTE FUNCTION snapshots_said_twice()")


def _message(table: str) -> str:
    return f"{table} is append-only: a correction is a new row"


def _abort(table: str) -> str:
    return f"SELECT RAISE(ABORT, '{_message(table)}')"


def _function(name: str, body: str) -> str:
    return f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"


def _execute(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)
