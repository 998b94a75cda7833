"""Tasks of the provider check and of the upkeep."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import TriggerRule

from plumbline import workflows
from plumbline.airflow.availability import LIMIT, AvailabilityOperator
from plumbline.airflow.defaults import found_elsewhere
from plumbline.airflow.health import TaskView
from plumbline.airflow.retries import task
from plumbline.airflow.schedules import CHANGES, provider_changed
from plumbline.airflow.triggerer_connections import ConnectionsOperator
from plumbline.airflow.versions import AirflowSkipException, conf
from plumbline.declarations import load_in_force
from plumbline.workflows.plan import CONNECTIONS_TASK, REVIEW_DAG

Row = dict[str, Any]
_NAME = "{{ task.op_kwargs['provider'] }}"
_log = logging.getLogger(__name__)


@task
def providers() -> list[str]:
    """List the enabled providers with environment checks. Skipped without any."""
    # Read at run time, so that this file needs no declaration to be parsed.
    names = [provider.name for provider in workflows.pending_changes.monitored_providers(load_in_force())]
    if not names:
        raise AirflowSkipException("no enabled provider has watch.enabled")
    return names


@task
def watched() -> list[str]:
    """List the enabled providers with watch.uptime or watch.capacity. Skipped without any."""
    names = workflows.check_availability.watched(load_in_force())
    if not names:
        raise AirflowSkipException("no enabled provider declares watch.uptime or watch.capacity")
    return names


def checks(names: Any) -> Any:
    """Check each provider in the triggerer until the next run."""
    operator = AvailabilityOperator.partial(task_id="checks", execution_timeout=LIMIT, map_index_template="{{ task.provider }}")
    return operator.expand(provider=names)


@task(map_index_template=_NAME)
def prices(provider: str) -> Row:
    """Read every price source of the provider. The log names sources that fail."""
    result = workflows.read_prices.read_provider_prices(provider)
    for line in result.notes:
        _log.warning("price source failed: %s", line)
    _log.info("%s: %d new price readings; %s", provider, result.readings, result.reason or "no change")
    return {"changes": list(result.changes), "findings": list(result.findings), "failed": list(result.notes)}


# No retry: the check itself waits for a cluster that does not answer.
@task(map_index_template=_NAME, retries=0)
@found_elsewhere
def look(provider: str) -> Row:
    """Check the provider's hardware and software. Fails if it cannot be read; the other providers continue."""
    checked = workflows.check_provider.check_environment(provider)
    for line in checked.notes:
        _log.warning("%s: %s", provider, line)
    _log.info("%s: %d nodes; %s", provider, checked.nodes, checked.reason or "nothing new")
    return {"news": list(checked.news), "findings": list(checked.findings)}


@task(map_index_template=_NAME, retries=0)
@found_elsewhere
def probe(provider: str) -> Row:
    """Measure the provider's arithmetic and memory, if that is declared and due and nothing else runs there.

    Succeeds without a probe too: a skipped task would skip `rerun`.
    """
    from plumbline.archive import open_archive

    everything = load_in_force()
    with open_archive() as archive:
        why = workflows.probe.skip_reason(archive, everything, everything.providers[provider], datetime.now(timezone.utc))
    if why is not None:
        _log.info("no probe: %s", why)
        return {"put_off": why}
    result = workflows.probe.probe_provider(provider)
    if result.put_off is not None:
        _log.warning("no probe: %s", result.put_off)
        return {"put_off": result.put_off}
    for line in result.notes:
        _log.warning("%s: %s", provider, line)
    _log.info("%s: %s; %s", provider, ", ".join(j.text for j in result.figures), result.reason or "nothing new")
    return {"news": list(result.news), "findings": list(result.findings)}


@task(map_index_template=_NAME, outlets=[CHANGES])
def rerun(provider: str, *, ti: Any = None, outlet_events: Any = None) -> Row:
    """Start the provider's benchmark if it has pending changes. Skipped with the reason otherwise."""
    from plumbline.archive import open_archive

    everything = load_in_force()
    declared = everything.providers[provider]
    paused = TaskView(ti).is_paused(declared.dag_id)
    active = ti.get_dr_count(dag_id=declared.dag_id, states=["queued", "running"])
    with open_archive() as archive:
        due = workflows.pending_changes.decide_rerun(archive, declared, datetime.now(timezone.utc), active=active, paused=paused)
        _log.info("%s", due.why)
        if due.event is None:
            raise AirflowSkipException(due.why)
        now = datetime.now(timezone.utc)
        if (spent := workflows.budget.budget_blocks(archive, everything, declared, declared.watch.workloads, now)) is not None:
            raise AirflowSkipException(f"{due.why}: held back: {spent}")
        workflows.pending_changes.record_event(archive, provider, due.event)
    outlet_events[CHANGES].add(provider_changed(provider), extra=due.event)
    return due.event


@task
def held() -> list[str]:
    """List the providers with pending changes. Skipped without any."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        pending = workflows.pending_changes.providers_with_pending_changes(archive, load_in_force())
    if not pending:
        raise AirflowSkipException("no provider has pending changes")
    return pending


# Many requests to a store that may be remote or fail for a while.
_PATIENT: dict[str, Any] = {"execution_timeout": timedelta(hours=6), "retries": 3, "retry_delay": timedelta(minutes=10)}


@task
def clusters() -> list[str]:
    """List the enabled providers that are clusters. Skipped without any."""
    # Read at run time, as above.
    names = workflows.sweep.cluster_providers()
    if not names:
        raise AirflowSkipException("no enabled provider is a cluster")
    return names


@task(map_index_template="{{ task.op_kwargs['provider'] }}")
def sweep(provider: str) -> list[str]:
    """Delete expired objects on one provider's cluster."""
    return workflows.sweep.sweep_cluster(provider)


@task
def silence() -> list[str]:
    """Report series without results in this month's campaign."""
    return workflows.review.check_missing_data()


def connections() -> ConnectionsOperator:
    """Ask the triggerer which connections it can read, and report those that it lacks."""
    return ConnectionsOperator(task_id=CONNECTIONS_TASK[1])


@task
def unreviewed(*, ti: Any = None) -> list[Row]:
    """List the reviews to start of campaigns that were recorded and never reviewed. Skipped without any."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        wanted = workflows.missing_reviews.reviews_to_start(archive, load_in_force(), TaskView(ti), datetime.now(timezone.utc))
    if not wanted:
        raise AirflowSkipException("no recorded campaign waits for a review that upkeep may start now")
    for row in wanted:
        _log.warning("%(campaign)s on %(provider)s was recorded and not reviewed: its review is started", row["conf"])
    return wanted


def review(wanted: Any) -> Any:
    """Start the reviews, without waiting."""
    return TriggerDagRunOperator.partial(task_id="review", trigger_dag_id=REVIEW_DAG, skip_when_already_exists=True).expand_kwargs(wanted)


@task
def own_failures(*, ti: Any = None) -> list[str]:
    """Report failures of this installation; ids of findings that opened, changed or resolved."""
    now = datetime.now(timezone.utc)
    return workflows.check_installation.check_installation(TaskView(ti), now)


@task(trigger_rule=TriggerRule.ALL_DONE)
def tell() -> dict[str, list[str]]:
    """Send new findings and due alerts: reminders, alerts from quiet hours, retries to Slack."""
    return workflows.alert.send_alerts()


@task(**_PATIENT)
def verify() -> str:
    """Check the archive and a day's share of the raw evidence. Fails with the problems."""
    days = workflows.retain.verify_archive(datetime.now(timezone.utc).date())
    return f"the archive is sound: rows, documents and a share of the evidence (all within {days} days)"


@task(**_PATIENT)
def expire() -> dict[str, int]:
    """Delete expired raw evidence that nothing cites. Skipped if evidence is kept for ever."""
    from plumbline.archive import open_archive

    if workflows.retain.retention_rule() is None:
        raise AirflowSkipException("evidence is kept for ever: include/config/upkeep.yaml declares no evidence.keep")
    with open_archive() as archive:
        return asdict(workflows.retain.expire_evidence(archive))


@task(**_PATIENT)
def tidy() -> list[dict[str, Any]]:
    """Delete expired log files, pages, reports, quarantined copies and repeated snapshots."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        return [asdict(one) for one in workflows.retain.delete_old_data(archive, Path(conf.get("logging", "base_log_folder")))]


@task(**_PATIENT)
def export() -> list[str]:
    """Export finished campaigns to the declared location. Skipped without one."""
    done = workflows.transfer.export_campaigns(datetime.now(timezone.utc))
    if done is None:
        raise AirflowSkipException("include/config/upkeep.yaml declares no export")
    return done
