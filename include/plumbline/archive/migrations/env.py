"""What Alembic executes for each command; the connection, its transaction and its lock come from plumbline.archive.migrate."""

from __future__ import annotations

from alembic import context

from plumbline.archive import judgements, signing_keys  # noqa: F401 (their tables belong to the metadata)
from plumbline.archive.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
    compare_type=True,
    transactional_ddl=True,  # SQLite's too, since plumbline begins transactions itself
)
context.run_migrations()
