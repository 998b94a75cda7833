"""The tasks of the upkeep: each hands over to a step and no more."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule, task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.orchestration import alerting, evidence, exporting, steps, tidying
from plumbline.orchestration.silence import look_for_silence

# Files of a day's share or of a whole campaign, one request each, from a store that may be far away or away for a while.
_PATIENT: dict[str, Any] = {"execution_timeout": timedelta(hours=6), "retries": 3, "retry_delay": timedelta(minutes=10)}


@task
def clusters() -> list[str]:
    """The enabled providers that are clusters; skipped if there is none."""
    # Read when it runs, not when it is parsed: a broken declaration is one import error of the benchmarks, not one of every DAG file.
    found = steps.clusters()
    if not found:
        raise AirflowSkipException("no enabled provider is a cluster")
    return found


@task(map_index_template="{{ task.op_kwargs['provider'] }}")
def sweep(provider: str) -> list[str]:
    """Delete what outlived every deadline on one provider's cluster."""
    return steps.sweep(provider)


@task
def silence() -> list[str]:
    """Findings about series that left nothing in this month's campaign."""
    return look_for_silence()


@task
def own_failures(*, ti: Any = None) -> list[str]:
    """Findings about this installation: what of it failed, is paused, away or unreadable; ids of those that opened, changed or resolved."""
    from plumbline.orchestration import own_findings
    from plumbline.orchestration.task_view import TaskView

    now = datetime.now(timezone.utc)
    return own_findings.check(TaskView(ti, now), now)


@task(trigger_rule=TriggerRule.ALL_DONE)
def tell() -> dict[str, list[str]]:
    """Tell people what is new, and what is due: reminders, what quiet hours held, what Slack did not take before."""
    return alerting.alert()


@task(**_PATIENT)
def verify() -> str:
    """Check the archive, and a day's share of the raw evidence; red if something is broken, and says what."""
    days = evidence.verify(datetime.now(timezone.utc).date())
    return f"the archive holds: rows, documents and a share of the evidence (all of it every {days} days)"


@task(**_PATIENT)
def expire() -> dict[str, int]:
    """Delete raw evidence that was kept as long as declared and that nothing cites; skipped if it is kept for ever."""
    from plumbline.archive import open_archive

    if evidence.rule() is None:
        raise AirflowSkipException("evidence is kept for ever: include/config/upkeep.yaml declares no evidence.keep")
    with open_archive() as archive:
        return asdict(evidence.expire(archive))


@task(**_PATIENT)
def tidy() -> list[dict[str, Any]]:
    """Delete log files, pages, reports, quarantined copies and repeated snapshots that were kept as long as declared."""
    from airflow.configuration import conf

    from plumbline.archive import open_archive

    with open_archive() as archive:
        return [asdict(one) for one in tidying.tidy(archive, Path(conf.get_mandatory_value("logging", "base_log_folder")))]


@task(**_PATIENT)
def export() -> list[str]:
    """Write finished campaigns to the declared place; skipped if there is none."""
    done = exporting.export_finished(datetime.now(timezone.utc))
    if done is None:
        raise AirflowSkipException("nothing is exported: include/config/upkeep.yaml declares no export")
    return done
