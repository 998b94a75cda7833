"""Which raw files are kept no longer. Without this table an older version would call them missing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrations import protect, release

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_TABLE = "expired_evidence"


def upgrade() -> None:
    op.create_table(
        _TABLE,
        sa.Column("trial_pk", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("expired_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["trial_pk", "position"], ["evidence.trial_pk", "evidence.position"], name="fk_expired_evidence_trial_pk_position"
        ),
        sa.PrimaryKeyConstraint("trial_pk", "position", name="pk_expired_evidence"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_expired_evidence_removed_at", _TABLE, ["removed_at"])
    protect(_TABLE, ("DELETE",))


def downgrade() -> None:
    release(_TABLE)
    op.drop_table(_TABLE)
