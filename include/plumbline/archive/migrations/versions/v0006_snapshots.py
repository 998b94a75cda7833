"""What a provider's cluster or probe said of itself, day by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrations import protect, release

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TABLE = "snapshots"


def upgrade() -> None:
    op.create_table(
        _TABLE,
        sa.Column("snapshot_id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("facts_hash", sa.String(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.CheckConstraint("kind IN ('cluster', 'probe')", name="ck_snapshots_kind"),
        sa.PrimaryKeyConstraint("snapshot_id", name="pk_snapshots"),
    )
    op.create_index("ix_snapshots_provider_kind_taken_at", _TABLE, ["provider", "kind", "taken_at"])
    protect(_TABLE, ("UPDATE", "DELETE"))


def downgrade() -> None:
    release(_TABLE)
    op.drop_table(_TABLE)
