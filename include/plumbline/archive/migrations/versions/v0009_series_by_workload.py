"""Indexes for pages over many providers: series by workload and by source, stored decisions by time."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_series_workload_version_kind_source_provider": ("series", ["workload", "version", "kind", "source", "provider"]),
    "ix_series_source": ("series", ["source"]),
    "ix_decisions_decided_at": ("decisions", ["decided_at"]),
}


def upgrade() -> None:
    for name, (table, columns) in _INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    for name, (table, _) in _INDEXES.items():
        op.drop_index(name, table)
