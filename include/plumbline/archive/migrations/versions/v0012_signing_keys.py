"""The public keys with which attempts sign their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TABLE = "signing_keys"


def upgrade() -> None:
    op.create_table(
        _TABLE,
        sa.Column("campaign_id", sa.String(), nullable=False),
        sa.Column("trial_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("public_key", sa.String(), nullable=False),
        sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("campaign_id", "trial_id", "attempt", name="pk_signing_keys"),
    )


def downgrade() -> None:
    op.drop_table(_TABLE)
