"""Settings that every DAG of the house shares, each with its reason."""

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
"""Plans come first: a slot must not be missed because another provider's trials still queue."""
_STEP_LIMIT = timedelta(minutes=20)
_LAUNCH_MARGIN = timedelta(minutes=15)
_WAIT_FOR_MACHINE = timedelta(hours=1)
_AN_HOUR_LONG: dict[str, Any] = {
    # 1 + 2 + 4 + 8 + 15 + 15 + 15 minutes: a restart or an upgrade of PostgreSQL, or a store that is away, needs no person.
    "retries": 7,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=15),
}


def defaults(doc: str | None, *tags: str, asked: bool = False, housekeeping: bool = False) -> dict[str, Any]:
    """Arguments of `@dag`: the doc page from the file's docstring, one run at a time, no catching up with the past.

    `asked`: the DAG has no time of its own, only results or people start it. `housekeeping`: it measures nothing and starts no benchmark
    that a person has not unpaused, so that a team server runs it from the start.
    """
    unpaused = asked or (housekeeping and os.environ.get(TEAM_SERVER, "").lower() == "true")
    return {
        # What runs by the clock starts paused. What only answers something must not: a review that waits unseen is none.
        **({"is_paused_upon_creation": False} if unpaused else {}),
        "doc_md": f"```text\n{(doc or '').strip()}\n```",
        # No start date either: with one, a DAG that is unpaused would at once run the slot that was last missed.
        "catchup": False,
        # Two runs of one DAG would measure each other.
        "max_active_runs": 1,
        "tags": ["plumbline", *tags],
        "default_args": {
            "owner": OWNER,
            # Steps are idempotent; what they touch besides the disk (stores, databases) has bad moments.
            "retries": 1,
            "retry_delay": timedelta(seconds=10),
            "execution_timeout": _STEP_LIMIT,
            # What is nearest its end goes first: a finished trial is collected before the next one starts.
            "weight_rule": "upstream",
        },
    }


def launch_settings(provider: Provider) -> dict[str, Any]:
    """Arguments of the task that runs a trial on the provider.

    The launcher's own timeouts end a trial in order and say so in its record; Airflow's comes after them, for a launcher that hangs.
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
                # Before the class that it is a kind of: the first rule that fits decides.
                RetryRule(
                    DeclaredInterruption, RetryAction.FAIL, reason="interrupted as the workload declares: the next try would end alike"
                ),
                *(RetryRule(kind, _action(name), reason=f"{name}: {_why(name)}") for name, kind in sorted(EXCEPTIONS.items())),
            ],
            # Not a failure of the trial but of ours: the same code would meet it again.
            default=RetryAction.FAIL,
        ),
    }


def collect_settings(provider: Provider) -> dict[str, Any]:
    """Arguments of the task that collects a trial: a bucket elsewhere may be away, and a result that was paid for must not be lost."""
    return dict(_AN_HOUR_LONG) if provider.launcher.remote_store is not None else {}


def record_settings() -> dict[str, Any]:
    """Arguments of the task that records a trial: it outlasts an archive or a store that does not answer for an hour. What else it meets
    would end alike each time, and is a red task at once."""
    away = ["sqlalchemy.exc.OperationalError", "sqlalchemy.exc.InterfaceError", OSError]
    rule = RetryRule(away, RetryAction.RETRY, reason="the archive or the store does not answer")
    return {**_AN_HOUR_LONG, "retry_policy": ExceptionRetryPolicy(rules=[rule], default=RetryAction.FAIL)}


def _action(name: str) -> RetryAction:
    return RetryAction.RETRY if name in RETRIED else RetryAction.FAIL


def _why(name: str) -> str:
    return "worth another try" if name in RETRIED else "the next try would end alike"
