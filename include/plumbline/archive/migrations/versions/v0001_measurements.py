"""What was measured: campaigns, series, trials and everything below them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plumbline.archive.migrations import protect, release

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PROTECTED = {
    "environments": ("UPDATE",),
    "trials": ("UPDATE",),
    "documents": ("UPDATE",),
    "metrics": ("UPDATE",),
    "stages": ("UPDATE",),
    "telemetry": ("UPDATE",),
    "evidence": ("UPDATE",),
}


def upgrade() -> None:
    op.create_table(
        "campaigns",
        sa.Column("campaign_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("campaign_id", name="pk_campaigns"),
    )
    op.create_index("ix_campaigns_planned_at", "campaigns", ["planned_at"])
    op.create_table(
        "series",
        sa.Column("series_key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("source IN ('measured', 'simulated', 'imported')", name="ck_series_source"),
        sa.PrimaryKeyConstraint("series_key", name="pk_series"),
    )
    op.create_index("ix_series_provider_kind", "series", ["provider", "kind"])
    op.create_table(
        "series_campaigns",
        sa.Column("series_key", sa.String(), nullable=False),
        sa.Column("campaign_id", sa.String(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaigns.campaign_id"], name="fk_series_campaigns_campaign_id"),
        sa.ForeignKeyConstraint(["series_key"], ["series.series_key"], name="fk_series_campaigns_series_key"),
        sa.PrimaryKeyConstraint("series_key", "campaign_id", name="pk_series_campaigns"),
    )
    op.create_index("ix_series_campaigns_campaign_id", "series_campaigns", ["campaign_id"])
    op.create_index("ix_series_campaigns_series_key_planned_at", "series_campaigns", ["series_key", "planned_at"])
    op.create_table(
        "environments",
        sa.Column("environment_hash", sa.String(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("environment_hash", name="pk_environments"),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("series_key", sa.String(), nullable=False),
        sa.Column("campaign_id", sa.String(), nullable=False),
        sa.Column("slot", sa.String(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("failure_class", sa.String(), nullable=True),
        sa.Column("quality_action", sa.String(), nullable=False),
        sa.Column("quality_reasons", sa.JSON(), nullable=False),
        sa.Column("spec_hash", sa.String(), nullable=False),
        sa.Column("criteria_hash", sa.String(), nullable=False),
        sa.Column("schedule_hash", sa.String(), nullable=True),
        sa.Column("environment_hash", sa.String(), nullable=True),
        sa.Column("launcher", sa.String(), nullable=False),
        sa.Column("harness_version", sa.String(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("replay_of", sa.String(), nullable=True),
        sa.Column("dag_id", sa.String(), nullable=True),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("bundle_version", sa.String(), nullable=True),
        sa.Column("uri", sa.String(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.CheckConstraint("quality_action IN ('accept', 'annotate', 'reject')", name="ck_trials_quality_action"),
        sa.CheckConstraint("status IN ('valid', 'degraded', 'invalid', 'failed', 'missing')", name="ck_trials_status"),
        sa.ForeignKeyConstraint(["environment_hash"], ["environments.environment_hash"], name="fk_trials_environment_hash"),
        sa.ForeignKeyConstraint(
            ["series_key", "campaign_id"],
            ["series_campaigns.series_key", "series_campaigns.campaign_id"],
            name="fk_trials_series_key_campaign_id",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint("series_key", "campaign_id", "slot", "repeat", "attempt", name="uq_trials_natural_key"),
    )
    op.create_index("ix_trials_campaign_id", "trials", ["campaign_id"])
    op.create_index("ix_trials_trial_id_attempt", "trials", ["trial_id", "attempt"])
    op.create_table(
        "documents",
        sa.Column("trial_pk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["trial_pk"], ["trials.id"], name="fk_documents_trial_pk"),
        sa.PrimaryKeyConstraint("trial_pk", name="pk_documents"),
    )
    op.create_table(
        "metrics",
        sa.Column("trial_pk", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("statistic", sa.String(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("direction", sa.String(), nullable=False),
        sa.Column("ci_low", sa.Double(), nullable=True),
        sa.Column("ci_high", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["trial_pk"], ["trials.id"], name="fk_metrics_trial_pk"),
        sa.PrimaryKeyConstraint("trial_pk", "phase", "metric", "statistic", name="pk_metrics"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stages",
        sa.Column("trial_pk", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("total_s", sa.Double(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["trial_pk"], ["trials.id"], name="fk_stages_trial_pk"),
        sa.PrimaryKeyConstraint("trial_pk", "position", name="pk_stages"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "telemetry",
        sa.Column("trial_pk", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("signal", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("mean", sa.Double(), nullable=False),
        sa.Column("min", sa.Double(), nullable=False),
        sa.Column("max", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["trial_pk"], ["trials.id"], name="fk_telemetry_trial_pk"),
        sa.PrimaryKeyConstraint("trial_pk", "position", name="pk_telemetry"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "evidence",
        sa.Column("trial_pk", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("uri", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["trial_pk"], ["trials.id"], name="fk_evidence_trial_pk"),
        sa.PrimaryKeyConstraint("trial_pk", "position", name="pk_evidence"),
        sqlite_with_rowid=False,
    )
    for table, operations in PROTECTED.items():
        protect(table, operations)


def downgrade() -> None:
    for table in PROTECTED:
        release(table)
    op.drop_table("evidence")
    op.drop_table("telemetry")
    op.drop_table("stages")
    op.drop_table("metrics")
    op.drop_table("documents")
    op.drop_table("trials")
    op.drop_table("environments")
    op.drop_table("series_campaigns")
    op.drop_table("series")
    op.drop_table("campaigns")
