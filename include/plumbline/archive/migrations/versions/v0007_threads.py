"""What was said in a finding's thread, and until when a finding is to be left in peace."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("incidents", sa.Column("severity", sa.String(), nullable=True))
    op.add_column("incidents", sa.Column("said", sa.JSON(), nullable=True))
    op.add_column("findings", sa.Column("snoozed_until", sa.DateTime(timezone=True), nullable=True))
    # What stands in a channel was told with the severity that the finding has now: nobody is to be woken by a migration.
    op.execute(
        "UPDATE incidents SET severity = (SELECT findings.severity FROM findings WHERE findings.finding_id = incidents.finding_id)"
        " WHERE incidents.ts <> ''"
    )


def downgrade() -> None:
    op.drop_column("findings", "snoozed_until")
    op.drop_column("incidents", "said")
    op.drop_column("incidents", "severity")
