"""What was concluded: baselines, findings, incidents, decisions, prices, and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrations import protect, release

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PROTECTED = {"audit": ("UPDATE", "DELETE")}


def upgrade() -> None:
    op.create_table(
        "baselines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("series_key", sa.String(), nullable=False),
        sa.Column("campaign_id", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("accepted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("accepted_by", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("superseded_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("rule IN ('bootstrap', 'decision')", name="ck_baselines_rule"),
        sa.ForeignKeyConstraint(
            ["series_key", "campaign_id"],
            ["series_campaigns.series_key", "series_campaigns.campaign_id"],
            name="fk_baselines_series_key_campaign_id",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_baselines"),
    )
    op.create_index("ix_baselines_series_key_accepted_at", "baselines", ["series_key", "accepted_at"])
    op.create_index(
        "uq_baselines_bootstrap",
        "baselines",
        ["series_key"],
        unique=True,
        sqlite_where=sa.text("rule = 'bootstrap'"),
        postgresql_where=sa.text("rule = 'bootstrap'"),
    )
    op.create_index(
        "uq_baselines_current",
        "baselines",
        ["series_key", "campaign_id"],
        unique=True,
        sqlite_where=sa.text("superseded_at IS NULL"),
        postgresql_where=sa.text("superseded_at IS NULL"),
    )
    op.create_table(
        "findings",
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
        sa.CheckConstraint("kind IN ('performance', 'environment', 'price', 'reliability', 'missing_data')", name="ck_findings_kind"),
        sa.CheckConstraint("severity IN ('info', 'warn', 'page')", name="ck_findings_severity"),
        sa.CheckConstraint("state IN ('open', 'acknowledged', 'accepted', 'resolved')", name="ck_findings_state"),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaigns.campaign_id"], name="fk_findings_campaign_id"),
        sa.PrimaryKeyConstraint("finding_id", name="pk_findings"),
    )
    op.create_index("ix_findings_campaign_id", "findings", ["campaign_id"])
    op.create_index("ix_findings_opened_at", "findings", ["opened_at"])
    op.create_index("ix_findings_series_key_opened_at", "findings", ["series_key", "opened_at"])
    op.create_index("ix_findings_state_opened_at", "findings", ["state", "opened_at"])
    op.create_table(
        "incidents",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("finding_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("ts", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("message_hash", sa.String(), nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["finding_id"], ["findings.finding_id"], name="fk_incidents_finding_id"),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
        sa.UniqueConstraint("finding_id", "channel", name="uq_incidents_finding_id_channel"),
    )
    op.create_table(
        "decisions",
        sa.Column("decision_id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("winner", sa.String(), nullable=True),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("decision_id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_team_kind_decided_at", "decisions", ["team", "kind", "decided_at"])
    op.create_table(
        "prices",
        sa.Column("price_id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("since", sa.Date(), nullable=False),
        sa.Column("until", sa.Date(), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("price_id", name="pk_prices"),
    )
    op.create_index("ix_prices_provider_purchase_since", "prices", ["provider", "purchase", "since"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("once_key", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sa.UniqueConstraint("once_key", name="uq_audit_once_key"),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    for table, operations in PROTECTED.items():
        protect(table, operations)


def downgrade() -> None:
    for table in PROTECTED:
        release(table)
    op.drop_table("audit")
    op.drop_table("prices")
    op.drop_table("decisions")
    op.drop_table("incidents")
    op.drop_table("findings")
    op.drop_table("baselines")
