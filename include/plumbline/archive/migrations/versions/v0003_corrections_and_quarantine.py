"""What sets a measurement right, and what could not be believed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrations import protect, release

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

PROTECTED = {"corrections": ("UPDATE", "DELETE")}


def upgrade() -> None:
    # A table of its own, not a column of trials: an archive of a million trials is upgraded without rebuilding them.
    op.create_table(
        "corrections",
        sa.Column("trial_pk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("corrects", sa.Integer(), nullable=False),
        sa.Column("corrected_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("corrected_by", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.CheckConstraint("trial_pk <> corrects", name="ck_corrections_another"),
        sa.ForeignKeyConstraint(["trial_pk"], ["trials.id"], name="fk_corrections_trial_pk"),
        sa.ForeignKeyConstraint(["corrects"], ["trials.id"], name="fk_corrections_corrects"),
        sa.PrimaryKeyConstraint("trial_pk", name="pk_corrections"),
        sa.UniqueConstraint("corrects", name="uq_corrections_corrects"),
    )
    op.create_table(
        "quarantine",
        sa.Column("quarantine_id", sa.String(), nullable=False),
        sa.Column("campaign_id", sa.String(), nullable=False),
        sa.Column("trial_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("uri", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("quarantined_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("state IN ('kept', 'released')", name="ck_quarantine_state"),
        sa.PrimaryKeyConstraint("quarantine_id", name="pk_quarantine"),
    )
    op.create_index("ix_quarantine_state_quarantined_at", "quarantine", ["state", "quarantined_at"])
    op.create_index("ix_quarantine_campaign_id", "quarantine", ["campaign_id"])
    op.create_index("ix_findings_provider_opened_at", "findings", ["provider", "opened_at"])  # a review asks what a provider stands in
    for table, operations in PROTECTED.items():
        protect(table, operations)


def downgrade() -> None:
    for table in PROTECTED:
        release(table)
    op.drop_index("ix_findings_provider_opened_at", "findings")
    op.drop_table("quarantine")
    op.drop_table("corrections")
