"""Findings about this installation: what its DAG files say must run and does not, missed benchmarks, components without a heartbeat."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive, open_archive
from plumbline.declarations import DeclarationError, Declarations, Provider, load_in_force
from plumbline.findings import Reconciliation
from plumbline.findings.types.installation import INSTALLATION, FailureCode, InstallationFailure, installation_finding
from plumbline.launch.plan import declared_slots
from plumbline.metrics.formatting import shorten
from plumbline.workflows import check_watches
from plumbline.workflows.airflow_view import AirflowView
from plumbline.workflows.check_dags import CODES, START_GRACE, STATE_CODES, dag_failures, watched_since
from plumbline.workflows.findings import apply
from plumbline.workflows.missing_reviews import review_failures

WITHOUT_DECLARATIONS: tuple[FailureCode, ...] = (*CODES, "component_away")
CHECKED: tuple[FailureCode, ...] = (*WITHOUT_DECLARATIONS, "benchmark_missed", "review_missing", *check_watches.CODES)
AWAY_AFTER = timedelta(minutes=5)
"""How old a heartbeat may be: a restart takes less than a minute."""


def find_failures(
    archive: Archive, declared: Declarations | None, airflow: AirflowView, now: datetime
) -> tuple[list[InstallationFailure], Sequence[FailureCode]]:
    """The failures, and the codes that were checked: without declarations only those that need none."""
    benchmarks = [p.dag_id for p in declared.enabled_providers()] if declared else []
    failures = [*dag_failures(archive, airflow.dag_files(), airflow, now, benchmarks), *_silent_components(airflow, now)]
    unknown: tuple[FailureCode, ...] = () if airflow.reads_dags else STATE_CODES
    if declared is None:
        return failures, [code for code in WITHOUT_DECLARATIONS if code not in unknown]
    failures += [*_missed_runs(archive, declared, airflow, now), *check_watches.watch_failures(archive, declared, now)]
    checked = [code for code in CHECKED if code not in unknown]
    return [*failures, *review_failures(archive, declared, airflow, now)], checked


def slots_before(declared: Declarations, provider: Provider, now: datetime) -> list[datetime]:
    """The slots of the month of `now` in which a benchmark should have started by now, oldest first."""
    times = {slot for workload in declared.monthly_workloads(provider) for slot in declared_slots(provider, workload)}
    first = now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    slots = sorted(first + timedelta(hours=int(slot[:2]), minutes=int(slot[3:5])) for slot in times)
    return [slot for slot in slots if slot + START_GRACE <= now]


def _missed_runs(archive: Archive, declared: Declarations, airflow: AirflowView, now: datetime) -> Iterator[InstallationFailure]:
    for provider in declared.enabled_providers():
        since = watched_since(archive, provider.dag_id, now)
        slots = [slot for slot in slots_before(declared, provider, now) if slot > since]
        missed = [slot for slot in slots if not airflow.started(provider.dag_id, slot)]
        if not missed or _measured_since(archive, provider, missed[-1]):
            continue
        state = airflow.dag(provider.dag_id)
        paused = None if state is None else state.paused
        cause = {None: "Airflow does not have the DAG", True: "the DAG is paused", False: "the scheduler did not start it"}[paused]
        if not airflow.reads_dags:
            cause = "the DAG is paused or missing, or the scheduler did not start it; `plumbline doctor` shows which"
        unpause = f"`plumbline airflow dags unpause {provider.dag_id}`; " if paused else ""
        yield InstallationFailure(
            code="benchmark_missed",
            what=provider.dag_id,
            occurrence=missed[0].isoformat(),
            since=missed[0],
            severity="warn",
            title=f"{provider.dag_id} did not run at {shorten([f'{slot:%Y-%m-%d %H:%M}' for slot in missed])} UTC",
            cause=cause,
            remedy=f"{unpause}`plumbline doctor`; measure now with `plumbline trigger {provider.name} --reason …`, "
            "or set `enabled: false` in its declaration",
        )


def _measured_since(archive: Archive, provider: Provider, slot: datetime) -> bool:
    own = (s.series_key for s in archive.series(provider=provider.name) if s.source != "imported")
    campaigns = (c for key in own for c in archive.series_campaigns(key, 1))
    return any(at >= slot for _, at in campaigns)


def _silent_components(airflow: AirflowView, now: datetime) -> Iterable[InstallationFailure]:
    for component, beat in sorted(airflow.heartbeats().items()):
        if beat is not None and now - beat <= AWAY_AFTER:
            continue
        name = component.replace("_", " ")
        yield InstallationFailure(
            code="component_away",
            what=component,
            occurrence=beat.isoformat(timespec="seconds") if beat else "never",
            since=beat or now,
            severity="page",
            title=f"Airflow's {name} is down",
            cause=f"last heartbeat at {beat:%Y-%m-%d %H:%M} UTC" if beat else "it never sent a heartbeat",
            remedy=f"Start it: `docker compose up -d {component.replace('_', '-')}` on a team server, `plumbline up` on one machine. "
            + _COST.get(component, ""),
        )


_COST = {
    "triggerer": "Until then trials on clusters are not monitored; their pods continue and are adopted later.",
    "dag_processor": "Until then changes of DAGs and declarations have no effect.",
}


_log = logging.getLogger(__name__)


def check_installation(airflow: AirflowView, now: datetime) -> list[str]:
    """Check Airflow and the archive, and reconcile the findings; ids of those that opened, changed or resolved."""
    try:
        declared = load_in_force()
    except DeclarationError as error:  # the DAG files that need them are findings
        _log.error("the declarations cannot be read: benchmarks and schedules are not checked\n%s", error)
        declared = None
    with open_archive() as archive:
        failures, codes = find_failures(archive, declared, airflow, now)
        return reconcile_failures(archive, failures, codes, now)


def reconcile_failures(archive: Archive, failures: Iterable[InstallationFailure], codes: Collection[str], now: datetime) -> list[str]:
    """Reconcile the open findings with the failures; the ids of those that opened, changed or resolved.

    `codes`: those that were checked; findings with other codes stay.
    """
    open_ones = {
        str(view.detail.get("subject")): view
        for view in archive.findings_of(INSTALLATION, "self", unsettled=True)
        if str(view.detail.get("subject")).split(" ")[0] in codes
    }
    opened, continued = [], []
    for failure in failures:
        finding = installation_finding(failure)
        known = open_ones.pop(failure.subject, None)
        if known is None:
            opened.append(finding)
        elif any(known.detail.get(name) != getattr(finding, name) for name in ("title", "explanation", "remedy")):
            since = known.detail.get("since") or finding.since
            continued.append(replace(finding, finding_id=known.finding_id, since=since, state=known.state))
    why = f"resolved: the check of {now:%Y-%m-%d %H:%M} UTC found no such failure"
    resolved = tuple((finding, why) for finding in readable_findings(open_ones.values()))
    stored = apply(archive, Reconciliation(tuple(opened), tuple(continued), resolved), by=INSTALLATION, seen_in=f"{now:%Y-%m-%d}")
    return [*stored, *(f.finding_id for f in continued), *(f.finding_id for f, _ in resolved)]
