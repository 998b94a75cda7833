"""Settings that all DAGs share, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from plumbline.airflow.retries import policy
from plumbline.declarations import Provider
from plumbline.declarations.dag_ids import dag_prefix
from plumbline.declarations.installation import is_team_server

T = TypeVar("T")
OWNER = "plumbline"
PLAN_WEIGHT = 1000
"""Plans come first: queued trials of another provider must not delay a slot."""
_STEP_LIMIT = timedelta(minutes=20)
LANE_LIMIT = timedelta(hours=2)
"""Of a step over all trials of a lane: a hundred trials, each of which waits a minute for a cluster that is away."""
_LAUNCH_MARGIN = timedelta(minutes=15)
_WAIT_FOR_MACHINE = timedelta(hours=1)
_RETRIES: dict[str, Any] = {
    # After 10, 20, 40 … 640 and three times 900 seconds, an hour in all: outlasts a restart or an upgrade of Airflow's API server or of
    # PostgreSQL, and an outage of a store.
    "retries": 10,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=15),
    **policy(),
}
_RETRIES_WITHIN_THE_HOUR = 5
"""Five minutes: the next hourly run waits for this one."""


HOUSEKEEPING = "housekeeping"
"""The tag of a DAG whose next run repeats the whole work: a failure is over with it."""


def found_elsewhere(work: Callable[..., T]) -> Callable[..., T]:
    """Mark a task's function: its failure is found by what it leaves, as data about the provider or as a campaign without a review."""
    work.found_elsewhere = True  # type: ignore[attr-defined]
    return work


def named(dag_id: str) -> dict[str, Any]:
    """Arguments of `@dag`: the id, and in an Airflow with other teams' DAGs a name that people recognize."""
    if not (prefix := dag_prefix()):
        return {"dag_id": dag_id}
    return {"dag_id": dag_id, "dag_display_name": f"Plumbline: {dag_id.removeprefix(prefix).replace('_', ' ')}"}


def defaults(doc: str | None, *tags: str, asked: bool = False, housekeeping: bool = False) -> dict[str, Any]:
    """Arguments of `@dag`: the doc page from the file's docstring, one run at a time, no catchup.

    `asked`: results or people start the DAG, no schedule. `housekeeping`: the DAG measures nothing, so a team server runs it from the start.
    """
    unpaused = asked or (housekeeping and is_team_server())
    return {
        # Scheduled DAGs start paused; those that results or people start must not, as their runs would wait unnoticed.
        **({"is_paused_upon_creation": False} if unpaused else {}),
        "doc_md": f"```text\n{(doc or '').strip()}\n```",
        # No start date either: with one, a DAG that is unpaused would run the slot that it last missed.
        "catchup": False,
        # Two runs of one DAG would disturb each other.
        "max_active_runs": 1,
        "tags": ["plumbline", *tags, *([HOUSEKEEPING] if housekeeping else [])],
        "default_args": {
            "owner": OWNER,
            # Steps are idempotent; servers, stores and databases fail for a while.
            **_RETRIES,
            **({"retries": _RETRIES_WITHIN_THE_HOUR} if housekeeping else {}),
            "execution_timeout": _STEP_LIMIT,
            # A finished trial is collected before the next one starts.
            "weight_rule": "upstream",
        },
    }


def launch_settings(provider: Provider) -> dict[str, Any]:
    """Arguments of the task that runs a trial on the provider.

    The launcher's own timeouts end a trial in order and record it; Airflow's comes later, for a launcher that hangs.
    """
    launcher = provider.launcher
    waits = _WAIT_FOR_MACHINE
    if launcher.start_wait_s is not None:
        waits = timedelta(seconds=launcher.start_wait_s + launcher.unreachable_s)
    return {
        "pool": provider.pool,
        "execution_timeout": waits + timedelta(seconds=launcher.trial_limit_s) + _LAUNCH_MARGIN,
        "retries": launcher.retry.times,
        "retry_delay": timedelta(seconds=launcher.retry.delay_s),
        "retry_exponential_backoff": launcher.retry.doubled,
        "max_retry_delay": None,
        **policy(launches=True),
    }
