"""Each campaign says what it is for; of earlier ones their name and reason say it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.schema import one_of
from plumbline.declarations.purposes import Purpose, purpose_by_reason

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_CAMPAIGNS = sa.table("campaigns", sa.column("campaign_id"), sa.column("reason"), sa.column("purpose"))
_IMPORTED = """
UPDATE campaigns SET purpose = 'imported' WHERE NOT EXISTS (
  SELECT 1 FROM series_campaigns c JOIN series s ON s.series_key = c.series_key WHERE c.campaign_id = campaigns.campaign_id AND s.source <> 'imported'
) AND EXISTS (SELECT 1 FROM series_campaigns c WHERE c.campaign_id = campaigns.campaign_id)
"""


def upgrade() -> None:
    """Add `purpose` to the campaigns."""
    with op.batch_alter_table("campaigns") as campaigns:
        campaigns.add_column(sa.Column("purpose", sa.String(), nullable=True))
    connection = op.get_bind()
    for campaign_id, reason in connection.execute(sa.select(_CAMPAIGNS.c.campaign_id, _CAMPAIGNS.c.reason)).all():
        purpose = purpose_by_reason(campaign_id, reason)
        connection.execute(sa.update(_CAMPAIGNS).where(_CAMPAIGNS.c.campaign_id == campaign_id).values(purpose=purpose))
    op.execute(_IMPORTED)
    with op.batch_alter_table("campaigns") as campaigns:
        campaigns.alter_column("purpose", existing_type=sa.String(), nullable=False)
        campaigns.create_check_constraint("purpose", one_of("purpose", Purpose).sqltext)
        campaigns.create_index("ix_campaigns_purpose_planned_at", ["purpose", "planned_at"])
