"""Tasks of the provider check and of the upkeep."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule, task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline import workflows
from plumbline.airflow.health import TaskView
from plumbline.airflow.schedules import CHANGES, provider_changed
from plumbline.declarations import load

Row = dict[str, Any]
_NAME = "{{ task.op_kwargs['provider'] }}"
_log = logging.getLogger(__name__)


@task
def providers() -> list[str]:
    """The enabled providers that are watched; skipped if there is none."""
    # Read when it runs: a broken declaration is one import error of the benchmarks, not one of every DAG file.
    found = [provider.name for provider in workflows.pending_changes.monitored_providers(load())]
    if not found:
        raise AirflowSkipException("no enabled provider is watched (watch.enabled)")
    return found


@task(map_index_template=_NAME)
def prices(provider: str) -> Row:
    """Ask every source of the provider's prices; one that fails is named in the log."""
    seen = workflows.read_prices.read_provider_prices(provider)
    for line in seen.notes:
        _log.warning("no price was learnt: %s", line)
    _log.info("%s: %d new readings of prices; %s", provider, seen.readings, seen.reason or "no change")
    return {"changes": list(seen.changes), "findings": list(seen.findings), "failed": list(seen.notes)}


# A look waits for a cluster that does not answer by itself; the next one comes with the next run.
@task(map_index_template=_NAME, retries=0)
def look(provider: str) -> Row:
    """Look at the provider's hardware and software; fails if that cannot be done, and the others go on."""
    looked = workflows.check_provider.check_environment(provider)
    for line in looked.notes or ():
        _log.warning("%s: %s", provider, line)
    _log.info("%s: %d nodes; %s", provider, looked.nodes, looked.reason or "nothing new")
    return {"news": list(looked.news), "findings": list(looked.findings)}


@task(map_index_template=_NAME, retries=0)
def probe(provider: str) -> Row:
    """Measure the provider's arithmetic and memory from inside, if that is declared and due and nothing else runs there.

    It ends well without a probe too: a skipped task would keep `rerun` from what the look before it found.
    """
    from plumbline.archive import open_archive

    everything = load()
    with open_archive() as archive:
        why = workflows.probe.skip_reason(archive, everything, everything.providers[provider], datetime.now(timezone.utc))
    if why is not None:
        _log.info("no probe: %s", why)
        return {"put_off": why}
    seen = workflows.probe.probe_provider(provider)
    if seen.put_off is not None:
        _log.warning("no probe: %s", seen.put_off)
        return {"put_off": seen.put_off}
    for line in seen.notes:
        _log.warning("%s: %s", provider, line)
    _log.info("%s: %s; %s", provider, ", ".join(j.text for j in seen.figures), seen.reason or "nothing new")
    return {"news": list(seen.news), "findings": list(seen.findings)}


@task(map_index_template=_NAME, outlets=[CHANGES])
def rerun(provider: str, *, ti: Any = None, outlet_events: Any = None) -> Row:
    """Start the provider's benchmark if changes wait for it and nothing holds them back; skipped otherwise, saying why."""
    from plumbline.archive import open_archive

    everything = load()
    declared = everything.providers[provider]
    paused = ti.get_dag(declared.dag_id).is_paused
    active = ti.get_dr_count(dag_id=declared.dag_id, states=["queued", "running"])
    with open_archive() as archive:
        due = workflows.pending_changes.decide_rerun(archive, declared, datetime.now(timezone.utc), active=active, paused=paused)
        _log.info("%s", due.why)
        if due.event is None:
            raise AirflowSkipException(due.why)
        now = datetime.now(timezone.utc)
        if (spent := workflows.budget.budget_blocks(archive, everything, declared, declared.watch.workloads, now)) is not None:
            raise AirflowSkipException(f"{due.why}: held back, because of {spent}")
        workflows.pending_changes.record_event(archive, provider, due.event)
    outlet_events[CHANGES].add(provider_changed(provider), extra=due.event)
    return due.event


@task
def held() -> list[str]:
    """The providers whose changes still wait for a rerun; skipped if there is none."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        found = workflows.pending_changes.providers_with_pending_changes(archive, load())
    if not found:
        raise AirflowSkipException("no change of a provider waits for a rerun")
    return found


# Files of a day's share or of a whole campaign, one request each, from a store that may be far away or away for a while.
_PATIENT: dict[str, Any] = {"execution_timeout": timedelta(hours=6), "retries": 3, "retry_delay": timedelta(minutes=10)}


@task
def clusters() -> list[str]:
    """The enabled providers that are clusters; skipped if there is none."""
    # Read when it runs, not when it is parsed: a broken declaration is one import error of the benchmarks, not one of every DAG file.
    found = workflows.benchmark.cluster_providers()
    if not found:
        raise AirflowSkipException("no enabled provider is a cluster")
    return found


@task(map_index_template="{{ task.op_kwargs['provider'] }}")
def sweep(provider: str) -> list[str]:
    """Delete what outlived every deadline on one provider's cluster."""
    return workflows.benchmark.sweep_cluster(provider)


@task
def silence() -> list[str]:
    """Findings about series that left nothing in this month's campaign."""
    return workflows.review.check_missing_data()


@task
def own_failures(*, ti: Any = None) -> list[str]:
    """Findings about this installation: what of it failed, is paused, away or unreadable; ids of those that opened, changed or resolved."""
    now = datetime.now(timezone.utc)
    return workflows.check_installation.check_installation(TaskView(ti, now), now)


@task(trigger_rule=TriggerRule.ALL_DONE)
def tell() -> dict[str, list[str]]:
    """Tell people what is new, and what is due: reminders, what quiet hours held, what Slack did not take before."""
    return workflows.alert.send_alerts()


@task(**_PATIENT)
def verify() -> str:
    """Check the archive, and a day's share of the raw evidence; red if something is broken, and says what."""
    days = workflows.retain.verify_archive(datetime.now(timezone.utc).date())
    return f"the archive holds: rows, documents and a share of the evidence (all of it every {days} days)"


@task(**_PATIENT)
def expire() -> dict[str, int]:
    """Delete raw evidence that was kept as long as declared and that nothing cites; skipped if it is kept for ever."""
    from plumbline.archive import open_archive

    if workflows.retain.retention_rule() is None:
        raise AirflowSkipException("evidence is kept for ever: include/config/upkeep.yaml declares no evidence.keep")
    with open_archive() as archive:
        return asdict(workflows.retain.expire_evidence(archive))


@task(**_PATIENT)
def tidy() -> list[dict[str, Any]]:
    """Delete log files, pages, reports, quarantined copies and repeated snapshots that were kept as long as declared."""
    from airflow.configuration import conf

    from plumbline.archive import open_archive

    with open_archive() as archive:
        return [
            asdict(one) for one in workflows.retain.delete_old_data(archive, Path(conf.get_mandatory_value("logging", "base_log_folder")))
        ]


@task(**_PATIENT)
def export() -> list[str]:
    """Write finished campaigns to the declared place; skipped if there is none."""
    done = workflows.transfer.export_campaigns(datetime.now(timezone.utc))
    if done is None:
        raise AirflowSkipException("nothing is exported: include/config/upkeep.yaml declares no export")
    return done
