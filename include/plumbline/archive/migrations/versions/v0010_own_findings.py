"""Findings of kind `self`: failures of this installation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_BEFORE = ("performance", "environment", "price", "reliability", "missing_data")
_AFTER = (*_BEFORE, "self")
_KIND = "ck_findings_ck_findings_kind"
"""As the naming convention made it of the name in revision 0002."""
_INDEXES = (("campaign_id",), ("opened_at",), ("series_key", "opened_at"), ("state", "opened_at"), ("provider", "opened_at"))


def upgrade() -> None:
    _allow(_BEFORE, _AFTER)


def downgrade() -> None:
    op.execute("DELETE FROM incidents WHERE finding_id IN (SELECT finding_id FROM findings WHERE kind = 'self')")
    op.execute("DELETE FROM findings WHERE kind = 'self'")
    _allow(_AFTER, _BEFORE)


def _allow(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    # SQLite cannot alter a check: the table is rebuilt, and Alembic does not read the other checks from the database.
    with op.batch_alter_table("findings", copy_from=_table(before)) as findings:
        findings.drop_constraint(op.f(_KIND), type_="check")
        findings.create_check_constraint(op.f(_KIND), _one_of(after))


def _one_of(kinds: tuple[str, ...]) -> str:
    return f"kind IN ({', '.join(repr(kind) for kind in kinds)})"


def _table(kinds: tuple[str, ...]) -> sa.Table:
    metadata = sa.MetaData()
    sa.Table("campaigns", metadata, sa.Column("campaign_id", sa.String(), primary_key=True))
    return sa.Table(
        "findings",
        metadata,
        sa.Column("finding_id", sa.String(), nullable=False),
        sa.Column("series_key", sa.String(), nullable=False),
        sa.Column("campaign_id", sa.String(), nullable=True),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("headline", sa.String(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("effect", sa.Double(), nullable=True),
        sa.Column("ci_low", sa.Double(), nullable=True),
        sa.Column("ci_high", sa.Double(), nullable=True),
        sa.Column("metric", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("snoozed_until", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(_one_of(kinds), name=_KIND),
        sa.CheckConstraint("severity IN ('info', 'warn', 'page')", name="ck_findings_ck_findings_severity"),
        sa.CheckConstraint("state IN ('open', 'acknowledged', 'accepted', 'resolved')", name="ck_findings_ck_findings_state"),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaigns.campaign_id"], name="fk_findings_campaign_id"),
        sa.PrimaryKeyConstraint("finding_id", name="pk_findings"),
        *(sa.Index(f"ix_findings_{'_'.join(columns)}", *columns) for columns in _INDEXES),
    )
