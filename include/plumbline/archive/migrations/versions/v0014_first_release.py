"""The schema of the first release. A new archive gets its tables from the models (`migrate.upgrade`); later revisions change these."""

from __future__ import annotations

revision = "0014"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing comes before."""
