"""The table of checks of uptime and capacity."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Boolean, CheckConstraint, Column, DateTime, Double, Integer, String

from plumbline.archive.migrate import protect

revision, down_revision, branch_labels, depends_on = "0014", "0013", None, None


def upgrade() -> None:
    """Nothing was checked yet."""
    op.create_table(
        "observations",
        Column("provider", String(), primary_key=True),
        Column("kind", String(), primary_key=True),
        Column("simulated", Boolean(), primary_key=True),
        Column("at", DateTime(True), primary_key=True),
        Column("cause", String()),
        Column("detail", String(), nullable=False),
        Column("seconds", Double()),
        Column("gpus", Integer(), nullable=False),
        CheckConstraint("kind IN ('uptime', 'capacity')", name="kind"),
        sqlite_with_rowid=False,
    )
    protect(op.get_bind(), "observations", ("UPDATE",))
