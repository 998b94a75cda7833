"""The tasks of the provider watch: each hands over to a step and no more."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.declarations import load
from plumbline.orchestration import budget, pricing, probes, watched, watching
from plumbline.orchestration.assets import CHANGES, provider_changed

Row = dict[str, Any]
_NAME = "{{ task.op_kwargs['provider'] }}"
_log = logging.getLogger(__name__)


@task
def providers() -> list[str]:
    """The enabled providers that are watched; skipped if there is none."""
    # Read when it runs: a broken declaration is one import error of the benchmarks, not one of every DAG file.
    found = [provider.name for provider in watched.watched(load())]
    if not found:
        raise AirflowSkipException("no enabled provider is watched (watch.enabled)")
    return found


@task(map_index_template=_NAME)
def prices(provider: str) -> Row:
    """Ask every source of the provider's prices; one that fails is named in the log."""
    seen = pricing.snapshot_prices(provider)
    for line in seen.notes:
        _log.warning("no price was learnt: %s", line)
    _log.info("%s: %d new readings of prices; %s", provider, seen.readings, seen.reason or "no change")
    return {"changes": list(seen.changes), "findings": list(seen.findings), "failed": list(seen.notes)}


# A look waits for a cluster that does not answer by itself; the next one comes with the next run.
@task(map_index_template=_NAME, retries=0)
def look(provider: str) -> Row:
    """Look at the provider's hardware and software; fails if that cannot be done, and the others go on."""
    looked = watching.look(provider)
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
        why = probes.not_due(archive, everything, everything.providers[provider], datetime.now(timezone.utc))
    if why is not None:
        _log.info("no probe: %s", why)
        return {"put_off": why}
    seen = probes.probe(provider)
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
        due = watched.due(archive, declared, datetime.now(timezone.utc), active=active, paused=paused)
        _log.info("%s", due.why)
        if due.event is None:
            raise AirflowSkipException(due.why)
        now = datetime.now(timezone.utc)
        if (spent := budget.holds_back(archive, everything, declared, declared.watch.workloads, now)) is not None:
            raise AirflowSkipException(f"{due.why}: held back, because of {spent}")
        watched.tell(archive, provider, due.event)
    outlet_events[CHANGES].add(provider_changed(provider), extra=due.event)
    return due.event


@task
def held() -> list[str]:
    """The providers whose changes still wait for a rerun; skipped if there is none."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        found = watched.held(archive, load())
    if not found:
        raise AirflowSkipException("no change of a provider waits for a rerun")
    return found
