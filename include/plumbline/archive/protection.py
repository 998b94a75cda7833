"""Triggers by which the database itself refuses to change what was measured or logged, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

_PROTECTED = {
    **dict.fromkeys(("environments", "trials", "documents", "metrics", "stages", "telemetry", "evidence"), ("UPDATE",)),
    **dict.fromkeys(("audit", "corrections", "price_readings"), ("UPDATE", "DELETE")),
    "expired_evidence": ("DELETE",),
    "snapshots": ("UPDATE",),
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


def release(connection: Connection, table: str) -> None:
    """Remove what `protect` made, before the table is dropped or rebuilt."""
    if connection.dialect.name == "sqlite":
        for operation in ("update", "delete"):
            _execute(connection, f"DROP TRIGGER IF EXISTS {table}_no_{operation}")
        return
    _execute(connection, f"DROP FUNCTION {table}_append_only() CASCADE")


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
    return f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"


def _execute(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)
