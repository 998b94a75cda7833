"""Reports, Data Docs and acceptance sheets in the result store are known by the SHA-256 of their files."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.columns import UtcDateTime

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add `written_files`."""
    op.create_table(
        "written_files",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("written_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", "file", name="pk_written_files"),
    )
