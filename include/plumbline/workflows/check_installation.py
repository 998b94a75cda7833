"""Findings about this installation: failed tasks, unreadable DAG files, missed benchmarks, paused DAGs, components without a heartbeat."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Protocol

from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive, open_archive
from plumbline.declarations import DeclarationError, Declarations, Provider, load_in_force
from plumbline.findings import Reconciliation
from plumbline.findings.types.installation import INSTALLATION, FailureCode, InstallationFailure, installation_finding
from plumbline.launch.plan import declared_slots
from plumbline.metrics.formatting import shorten
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import trial_groups

WITHOUT_DECLARATIONS: tuple[FailureCode, ...] = ("dag_unreadable", "component_away")
CHECKED: tuple[FailureCode, ...] = (*WITHOUT_DECLARATIONS, "task_failed", "benchmark_missed", "dag_paused")
START_GRACE, AWAY_AFTER = timedelta(hours=1), timedelta(minutes=5)
"""How late a benchmark may start, and how old a heartbeat may be: a restart takes less than a minute."""
SCHEDULE_WATCHED = "schedule_watched"
_AUTHOR = "plumbline"

_REMEDIES = {
    "plan": "Read the task's log, repair the declaration that it names, clear the task",
    "collect": "When the result store answers, clear the task, or run `plumbline archive collect CAMPAIGN`",
    "validate": "Read the task's log, clear the task: the results are in the store",
    "record": "When the archive's database answers, clear the task: results are written once",
    "publish": "Clear the task: the review waits for it",
    "compare": "When the archive answers, clear the task: repeating a review changes nothing",
    "alert": "When the archive answers, clear the task",
    "report": "Read the task's log, then `plumbline report CAMPAIGN`",
    "decide": "Clear the task: repeating it changes nothing",
    "digest": "Check the Slack connection plumbline_slack, clear the task",
    "sweep": "`plumbline cluster doctor PROVIDER` shows which part of the connection to the cluster is broken",
    "silence": "Read the task's log; the next hourly run tries again",
    "tell": "Read the task's log; the next hourly run tries again",
    "verify": "`plumbline archive verify`, then docs/operate.md, 'Repair the archive'",
    "expire": "Check that the result store answers; the next nightly run continues",
    "export": "Check that `export.to` answers; the next nightly run continues",
    "prices": "When the archive answers, clear the task",
}
_EVERY_RUN = {"drift_review": ("compare", "alert"), "scorecard_report": ("report", "decide", "digest")}
"""Checked in every run: the next run does not repeat the work."""
_NEWEST_RUN = {"upkeep": ("sweep", "silence", "tell"), "upkeep_daily": ("verify", "expire", "export"), "provider_watch": ("watch.prices",)}
"""Checked in the newest run only: each repeats the whole work."""
_MUST_RUN = ("upkeep_daily", "drift_review")


class AirflowView(Protocol):
    """Airflow's state, as its database or its API reports it."""

    def paused(self, dag_id: str) -> bool | None:
        """None if the DAG does not exist."""

    def task_states(self, dag_id: str, task_ids: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        """Run id → task id (mapped: with `_` and its index) → state, of all runs in which one of these tasks failed."""

    def newest_states(self, dag_id: str, task_ids: Sequence[str]) -> tuple[str, Mapping[str, str | None]] | None:
        """The newest run whose tasks have ended, with their states; None without one."""

    def started(self, dag_id: str, slot: datetime) -> bool:
        """Whether the schedule's run of this time exists."""

    def unreadable_files(self) -> Mapping[str, str]:
        """DAG file → why it cannot be parsed."""

    def heartbeats(self) -> Mapping[str, datetime | None]:
        """Component (`triggerer`, `dag_processor`) → its last heartbeat, None without one. OSError if Airflow does not answer."""


def find_failures(
    archive: Archive, declared: Declarations | None, airflow: AirflowView, now: datetime
) -> tuple[list[InstallationFailure], Sequence[FailureCode]]:
    """The failures, and the codes that were checked: without declarations only those that need none."""
    failures = [
        *(_dag_unreadable(file, why, now) for file, why in sorted(airflow.unreadable_files().items())),
        *_silent_components(airflow, now),
    ]
    if declared is None:
        return failures, WITHOUT_DECLARATIONS
    failures += _failed_runs(declared, airflow)
    return [*failures, *_missed_runs(archive, declared, airflow, now), *_paused(declared, airflow, now)], CHECKED


def monitored_tasks(declared: Declarations, provider: Provider) -> tuple[str, ...]:
    """A benchmark's tasks whose failure is ours; a failed `run` is data about the provider."""
    steps = ("plan", "collect", "validate", "record")
    return (*(f"{lane.name}.{step}" for lane in trial_groups(declared, provider) for step in steps), "publish")


def _failed_runs(declared: Declarations, airflow: AirflowView) -> Iterator[InstallationFailure]:
    each = {p.dag_id: monitored_tasks(declared, p) for p in declared.enabled_providers()} | _EVERY_RUN
    for dag_id, task_ids in each.items():
        for run_id, states in airflow.task_states(dag_id, task_ids).items():
            if tasks := _failed(states):
                yield _task_failed(dag_id, run_id, tasks)
    for dag_id, task_ids in _NEWEST_RUN.items():
        newest = airflow.newest_states(dag_id, task_ids)
        if newest is not None and (tasks := _failed(newest[1])):
            yield _task_failed(dag_id, newest[0], tasks)


def _failed(states: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(sorted(task for task, state in states.items() if state == "failed"))


def _task_failed(dag_id: str, run_id: str, tasks: Sequence[str]) -> InstallationFailure:
    names = sorted({re.sub(r"_\d+$", "", task).rpartition(".")[2] for task in tasks})
    return InstallationFailure(
        code="task_failed",
        what=dag_id if dag_id in _NEWEST_RUN else f"{dag_id} {run_id}",
        occurrence=run_id,
        since=_time_of(run_id),
        severity="page" if "verify" in names else "warn",
        title=f"{shorten(names)} failed in {dag_id}",
        cause=f"run {run_id}: {shorten(tasks)}",
        remedy="; ".join(f"{name}: {_REMEDIES[name]}" for name in names),
    )


def _time_of(run_id: str) -> datetime:
    """The time in a run id; the present for an id without one."""
    match = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", run_id)
    return datetime.fromisoformat(match[0]).replace(tzinfo=timezone.utc) if match else datetime.now(timezone.utc)


def _dag_unreadable(file: str, why: str, now: datetime) -> InstallationFailure:
    last = next((line.strip() for line in reversed(why.splitlines()) if line.strip()), "no reason given")
    return InstallationFailure(
        code="dag_unreadable",
        what=file,
        occurrence=f"{now:%Y-%m-%d}",
        since=now,
        severity="page",
        title=f"{file} cannot be parsed: its DAGs do not run",
        cause=last,
        remedy="Repair the file or the declaration that it names; `plumbline check` shows every problem",
    )


def slots_before(declared: Declarations, provider: Provider, now: datetime) -> list[datetime]:
    """The slots of the month of `now` in which a benchmark should have started by now, oldest first."""
    times = {slot for workload in declared.monthly_workloads(provider) for slot in declared_slots(provider, workload)}
    first = now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    slots = sorted(first + timedelta(hours=int(slot[:2]), minutes=int(slot[3:5])) for slot in times)
    return [slot for slot in slots if slot + START_GRACE <= now]


def _missed_runs(archive: Archive, declared: Declarations, airflow: AirflowView, now: datetime) -> Iterator[InstallationFailure]:
    for provider in declared.enabled_providers():
        since = _watched_since(archive, provider, now)
        slots = [slot for slot in slots_before(declared, provider, now) if slot > since]
        missed = [slot for slot in slots if not airflow.started(provider.dag_id, slot)]
        if not missed or _measured_since(archive, provider, missed[-1]):
            continue
        paused = airflow.paused(provider.dag_id)
        cause = {None: "Airflow does not have the DAG", True: "the DAG is paused", False: "the scheduler did not start it"}[paused]
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


def _watched_since(archive: Archive, provider: Provider, now: datetime) -> datetime:
    """When this check first saw the provider: no earlier slot is expected."""
    known = next((entry.at for entry in archive.audit(provider.dag_id) if entry.what == SCHEDULE_WATCHED), None)
    if known is None:
        archive.add_audit(who=_AUTHOR, what=SCHEDULE_WATCHED, subject=provider.dag_id, why="slots from now on are expected to start")
    return known or now


def _measured_since(archive: Archive, provider: Provider, slot: datetime) -> bool:
    own = (s.series_key for s in archive.series(provider=provider.name) if s.source != "imported")
    campaigns = (c for key in own for c in archive.series_campaigns(key, 1))
    return any(at >= slot for _, at in campaigns)


def _paused(declared: Declarations, airflow: AirflowView, now: datetime) -> Iterator[InstallationFailure]:
    watched = ("provider_watch",) if any(p.watch.enabled for p in declared.enabled_providers()) else ()
    for dag_id in (*_MUST_RUN, *watched):
        if airflow.paused(dag_id):
            yield InstallationFailure(
                code="dag_paused",
                what=dag_id,
                occurrence=f"{now:%Y-%m-%d}",
                since=now,
                severity="warn",
                title=f"{dag_id} is paused",
                cause="the DAG runs by itself on a team server",
                remedy=f"`plumbline airflow dags unpause {dag_id}`",
            )


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
