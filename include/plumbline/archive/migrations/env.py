"""Alembic's entry point; plumbline.archive.migrate supplies the connection, its transaction and its lock."""

from __future__ import annotations

from alembic import context

from plumbline.archive.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
    compare_type=True,
    transactional_ddl=True,  # SQLite's too, since plumbline begins transactions itself
)
context.run_migrations()
