"""A snapshot may be deleted if the ones before and after it hold the same facts; every other one, and every change, stays impossible."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_MESSAGE = "snapshots is append-only: a correction is a new row"


def _neighbour(sign: str, order: str) -> str:
    return (
        "(SELECT facts_hash FROM snapshots s WHERE s.provider = OLD.provider AND s.kind = OLD.kind "
        f"AND (s.taken_at, s.snapshot_id) {sign} (OLD.taken_at, OLD.snapshot_id) "
        f"ORDER BY s.taken_at {order}, s.snapshot_id {order} LIMIT 1)"
    )


# Not known counts as different: the first and the last one have a neighbour on one side only.
_SAID_TWICE = f"coalesce({_neighbour('<', 'DESC')} = OLD.facts_hash AND {_neighbour('>', 'ASC')} = OLD.facts_hash, FALSE)"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER snapshots_no_delete")
        op.execute(
            f"CREATE TRIGGER snapshots_no_delete BEFORE DELETE ON snapshots WHEN NOT {_SAID_TWICE} BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
        )
        return
    op.execute("DROP TRIGGER snapshots_no_delete ON snapshots")
    op.execute(
        "CREATE FUNCTION snapshots_said_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF {_SAID_TWICE} THEN RETURN OLD; END IF; RAISE EXCEPTION '{_MESSAGE}'; END $$"
    )
    op.execute("CREATE TRIGGER snapshots_no_delete BEFORE DELETE ON snapshots FOR EACH ROW EXECUTE FUNCTION snapshots_said_twice()")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER snapshots_no_delete")
        op.execute(f"CREATE TRIGGER snapshots_no_delete BEFORE DELETE ON snapshots BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END")
        return
    op.execute("DROP FUNCTION snapshots_said_twice() CASCADE")
    op.execute("CREATE TRIGGER snapshots_no_delete BEFORE DELETE ON snapshots FOR EACH ROW EXECUTE FUNCTION snapshots_append_only()")
