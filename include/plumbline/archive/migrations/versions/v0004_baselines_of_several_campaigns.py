"""The bootstrap rule may take several campaigns into a series' first baseline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INDEX, _BOOTSTRAPPED = "uq_baselines_bootstrap", "rule = 'bootstrap'"


def upgrade() -> None:
    _replace_index("series_key", "campaign_id")


def downgrade() -> None:
    # The schema before knows one bootstrapped campaign; the first one is what the rule of that version would have taken. The log keeps them all.
    op.execute(
        f"DELETE FROM baselines WHERE {_BOOTSTRAPPED} AND EXISTS (SELECT 1 FROM baselines AS first"
        " WHERE first.series_key = baselines.series_key AND first.rule = 'bootstrap' AND first.id < baselines.id)"
    )
    _replace_index("series_key")


def _replace_index(*columns: str) -> None:
    op.drop_index(_INDEX, "baselines")
    where = sa.text(_BOOTSTRAPPED)
    op.create_index(_INDEX, "baselines", list(columns), unique=True, sqlite_where=where, postgresql_where=where)
