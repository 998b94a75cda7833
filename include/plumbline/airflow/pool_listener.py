"""Creates a benchmark's pool when a run begins (Airflow's scheduler calls it): a task without its pool waits silently."""

from __future__ import annotations

import logging
from typing import Any

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)


@hookimpl  # type: ignore[untyped-decorator]
def on_dag_run_running(dag_run: Any, msg: str) -> None:
    """An existing pool keeps its size."""
    # Imported here: every component imports the module, only the scheduler runs this and has the metadata database.
    from airflow.models.pool import Pool  # noqa: TID251
    from airflow.utils.session import create_session  # noqa: TID251

    from plumbline.declarations import load_in_force
    from plumbline.declarations.dag_ids import BENCHMARK, dag_id
    from plumbline.workflows.plan import POOL_DESCRIPTION, pool_slots

    if not dag_run.dag_id.startswith(dag_id(BENCHMARK)):
        return
    # A session of its own: the scheduler's is in a transaction that a listener must not commit.
    with create_session(scoped=False) as session:
        if session.get_bind().dialect.name == "sqlite":
            return  # the scheduler holds SQLite's one write lock; `plumbline up` creates the pools of new providers itself
        for name, slots in pool_slots(p for p in load_in_force().enabled_providers() if p.dag_id == dag_run.dag_id).items():
            if Pool.get_pool(name, session=session) is None:
                session.add(Pool(pool=name, slots=slots, description=POOL_DESCRIPTION, include_deferred=True))
                log.info("pool %s created with %d slots for %s", name, slots, dag_run.dag_id)
