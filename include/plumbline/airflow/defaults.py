"""Settings that all DAGs share, each with its reason."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from plumbline.declarations import Provider
from plumbline.declarations.installation import TEAM_SERVER
from plumbline.launch.failures import EXCEPTIONS, RETRIED, DeclaredInterruption

OWNER = "plumbline"
PLAN_WEIGHT = 1000
"""Plans come first: queued trials of another provider must not delay a slot."""
_STEP_LIMIT = timedelta(minutes=20)
_LAUNCH_MARGIN = timedelta(minutes=15)
_WAIT_FOR_MACHINE = timedelta(hours=1)
_AN_HOUR_LONG: dict[str, Any] = {
    # 1 + 2 + 4 + 8 + 15 + 15 + 15 minutes: outlasts a restart or an upgrade of PostgreSQL, or an outage of a store.
    "retries": 7,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=15),
}


def defaults(doc: str | None, *tags: str, asked: bool = False, housekeeping: bool = False) -> dict[str, Any]:
    """Arguments of `@dag`: the doc page from the file's docstring, one run at a time, no catchup.

    `asked`: results or people start the DAG, no schedule. `housekeeping`: the DAG measures nothing, so a team server runs it from the start.
    """
    unpaused = asked or (housekeeping and os.environ.get(TEAM_SERVER, "").lower() == "true")
    return {
        # Scheduled DAGs start paused; those that results or people start must not, as their runs would wait unnoticed.
        **({"is_paused_upon_creation": False} if unpaused else {}),
        "doc_md": f"```text\n{(doc or '').strip()}\n```",
        # No start date either: with one, a DAG that is unpaused would run the slot that it last missed.
        "catchup": False,
        # Two runs of one DAG would disturb each other.
        "max_active_runs": 1,
        "tags": ["plumbline", *tags],
        "default_args": {
            "owner": OWNER,
            # Steps are idempotent; stores and databases fail for moments.
            "retries": 1,
            "retry_delay": timedelta(seconds=10),
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
    tries = {"retries": launcher.retry.times, "retry_delay": timedelta(seconds=launcher.retry.delay_s)}
    if launcher.retry.doubled:
        tries["retry_exponential_backoff"] = True
    return {
        "pool": provider.pool,
        "execution_timeout": waits + timedelta(seconds=launcher.trial_limit_s) + _LAUNCH_MARGIN,
        **tries,
        "retry_policy": ExceptionRetryPolicy(
            rules=[
                # Before its base class: the first rule that matches decides.
                RetryRule(DeclaredInterruption, RetryAction.FAIL, reason="interrupted as declared by the workload: a retry would fail too"),
                *(RetryRule(kind, _action(name), reason=f"{name}: {_retry_advice(name)}") for name, kind in sorted(EXCEPTIONS.items())),
            ],
            # A failure of our own code, which a retry would meet again.
            default=RetryAction.FAIL,
        ),
    }


def collect_settings(provider: Provider) -> dict[str, Any]:
    """Arguments of the task that collects a trial: retried for an hour where the store is a remote bucket."""
    return dict(_AN_HOUR_LONG) if provider.launcher.remote_store is not None else {}


def record_settings() -> dict[str, Any]:
    """Arguments of the task that records a trial: retried for an hour if the archive or the store does not answer, and not for other errors."""
    away = ["sqlalchemy.exc.OperationalError", "sqlalchemy.exc.InterfaceError", OSError]
    rule = RetryRule(away, RetryAction.RETRY, reason="the archive or the store does not answer")
    return {**_AN_HOUR_LONG, "retry_policy": ExceptionRetryPolicy(rules=[rule], default=RetryAction.FAIL)}


def _action(name: str) -> RetryAction:
    return RetryAction.RETRY if name in RETRIED else RetryAction.FAIL


def _retry_advice(name: str) -> str:
    return "a retry may succeed" if name in RETRIED else "a retry would fail too"
