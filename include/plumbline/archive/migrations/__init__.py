"""Alembic scripts and append-only triggers, for SQLite and PostgreSQL; run by plumbline.archive.migrate."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

# Triggers by which the database itself refuses to change what was measured or logged.
#
# A migration that rebuilds a protected table (SQLite's batch mode) has to protect it again.


def protect(table: str, operations: Sequence[str]) -> None:
    """Make each of these operations (UPDATE, DELETE) on the table an error that says why."""
    message = f"{table} is append-only: a correction is a new row"
    if op.get_bind().dialect.name == "sqlite":
        for operation in operations:
            op.execute(
                f"CREATE TRIGGER {table}_no_{operation.lower()} BEFORE {operation} ON {table} BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    op.execute(f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{message}'; END $$")
    for operation in operations:
        op.execute(
            f"CREATE TRIGGER {table}_no_{operation.lower()} BEFORE {operation} ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_append_only()"
        )


def release(table: str) -> None:
    """Remove the protection, before the table is dropped or rebuilt."""
    if op.get_bind().dialect.name == "sqlite":
        for operation in ("update", "delete"):
            op.execute(f"DROP TRIGGER IF EXISTS {table}_no_{operation}")
        return
    op.execute(f"DROP FUNCTION {table}_append_only() CASCADE")
