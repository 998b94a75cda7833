"""The table of the operations log, whose rows are only added."""

from __future__ import annotations

from alembic import op
from sqlalchemy import CheckConstraint, Column, DateTime, Integer, String

from plumbline.archive.migrate import protect

revision, down_revision, branch_labels, depends_on = "0013", "0012", None, None
_TEXTS = ("provider", "kind", "what", "whose", "severity", "reference", "recorded_by")


def upgrade() -> None:
    """Nothing is logged yet."""
    op.create_table(
        "operations_log",
        Column("entry_id", String(), primary_key=True),
        Column("revision", Integer(), primary_key=True, autoincrement=False),
        *(Column(name, String(), nullable=False) for name in _TEXTS),
        *(
            Column(name, DateTime(True), nullable=name in ("answered", "solved"))
            for name in ("opened", "answered", "solved", "recorded_at")
        ),
        CheckConstraint("kind IN ('incident', 'ticket', 'quota', 'maintenance')", name="kind"),
        CheckConstraint("whose IN ('provider', 'us', 'unknown')", name="whose"),
    )
    op.create_index("ix_operations_log_provider_kind", "operations_log", ["provider", "kind"])
    protect(op.get_bind(), "operations_log", ("UPDATE", "DELETE"))
