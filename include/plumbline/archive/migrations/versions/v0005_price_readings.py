"""Prices as they were read, and the term that an accepted reserved price is for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrations import protect, release

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TABLE = "price_readings"


def upgrade() -> None:
    op.add_column("prices", sa.Column("term", sa.String(), nullable=True))
    op.create_table(
        _TABLE,
        sa.Column("reading_id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("term", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("source_version", sa.String(), nullable=False),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("per", sa.String(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("usd_per_unit", sa.Double(), nullable=False),
        sa.Column("usd_per_gpu_hour", sa.Double(), nullable=False),
        sa.Column("usd_per_instance_hour", sa.Double(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("purchase IN ('on_demand', 'spot', 'reserved')", name="ck_price_readings_purchase"),
        sa.CheckConstraint("per IN ('gpu_hour', 'instance_hour')", name="ck_price_readings_per"),
        sa.PrimaryKeyConstraint("reading_id", name="pk_price_readings"),
    )
    op.create_index("ix_price_readings_provider_purchase_observed_at", _TABLE, ["provider", "purchase", "observed_at"])
    protect(_TABLE, ("UPDATE", "DELETE"))


def downgrade() -> None:
    release(_TABLE)
    op.drop_table(_TABLE)
    op.drop_column("prices", "term")
