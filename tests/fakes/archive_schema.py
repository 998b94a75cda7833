"""New archives get their schema by repeating what the first migration of a run did.

A migration costs 0.15 s, most of it Alembic's bookkeeping, and over a thousand tests open a new archive. Tests of the migrations import
`upgrade` by name, so they run the real one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

Statement = tuple[str, Any]


class RecordedMigration:
    """Replaces `upgrade` in the module of migrations, where opening an archive calls it."""

    def __init__(self, migrations: Any) -> None:
        self._migrations = migrations
        self._upgrade = migrations.upgrade
        self._recorded: dict[str, list[Statement]] = {}

    def __call__(self, engine: Engine, revision: str = "head") -> None:
        """Create the schema; migrate an archive that has one already, or to another revision, as usual."""
        if revision != "head" or self._migrations.revision_of(engine) is not None:
            self._upgrade(engine, revision)
        elif engine.dialect.name in self._recorded:
            self._repeat(engine)
        else:
            self._record(engine)

    def _repeat(self, engine: Engine) -> None:
        with self._migrations.migrating(engine) as connection:
            if not connection.dialect.has_table(connection, "alembic_version"):  # else another process was first
                for statement, parameters in self._recorded[engine.dialect.name]:
                    connection.exec_driver_sql(statement, parameters)

    def _record(self, engine: Engine) -> None:
        statements: list[Statement] = []

        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
            if not statement.lstrip().upper().startswith("SELECT"):
                statements.append((statement, parameters))

        event.listen(engine, "before_cursor_execute", note)
        try:
            self._upgrade(engine)
        finally:
            event.remove(engine, "before_cursor_execute", note)
        if engine.dialect.name == "sqlite":  # rebuilds tables to alter them: the result takes fewer statements
            statements = _dump(engine)
        self._recorded[engine.dialect.name] = statements


def _dump(engine: Engine) -> list[Statement]:
    raw = engine.raw_connection()
    try:
        connection: Any = raw.driver_connection
        return [(line, None) for line in connection.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
    finally:
        raw.close()
