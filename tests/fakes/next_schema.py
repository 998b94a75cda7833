"""A program that is one migration newer than the product: it rebuilds a table that others refer to, adds one and protects it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from plumbline.archive import migrate

NEXT = f"{int(migrate.head()) + 1:04}"
_SCRIPT = f'''
import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrate import protect

revision, down_revision, branch_labels, depends_on = "{NEXT}", "{migrate.head()}", None, None


def upgrade():
    with op.batch_alter_table("findings", recreate="auto") as findings:
        findings.add_column(sa.Column("later", sa.String(), nullable=False, server_default=""))
        findings.create_unique_constraint("uq_findings_later", ["finding_id", "later"])
    op.execute("UPDATE findings SET later = severity")
    op.create_table("later", sa.Column("id", sa.Integer(), nullable=False), sa.PrimaryKeyConstraint("id", name="pk_later"))
    op.create_index("ix_later_id", "later", ["id"])
    protect(op.get_bind(), "later", ("UPDATE", "DELETE"))
'''


@contextmanager
def newer_program(folder: Path) -> Iterator[str]:
    """While it runs, this process is that program; its schema. `folder` is empty, or one that another process made for it."""
    copy = folder / "migrations"
    if not copy.exists():
        shutil.copytree(Path(migrate.__file__).with_name("migrations"), copy)
        (copy / "versions" / f"v{NEXT}_later.py").write_text(_SCRIPT)
    with mock.patch.object(migrate, "_MIGRATIONS", copy):
        migrate.head.cache_clear()
        try:
            yield NEXT
        finally:
            migrate.head.cache_clear()
