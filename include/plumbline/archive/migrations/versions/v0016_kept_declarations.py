"""The last valid declarations of each folder are kept in the archive, no longer in files."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.columns import UtcDateTime

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add `kept_declarations`."""
    op.create_table(
        "kept_declarations",
        sa.Column("folder", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.Column("kept_at", UtcDateTime(), nullable=False),
        sa.Column("broken_since", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("folder", name="pk_kept_declarations"),
    )
