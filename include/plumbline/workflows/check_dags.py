"""Findings about DAGs, by what their files declare: gone, paused, late, or with failed tasks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from plumbline.archive import Archive
from plumbline.archive.records import AuditView
from plumbline.findings.types.installation import FailureCode, InstallationFailure
from plumbline.metrics.formatting import shorten
from plumbline.workflows.airflow_view import AirflowView, DagFiles, DeclaredDag

START_GRACE = timedelta(hours=1)
"""How late a run may start, and how long Airflow may take to read a new file: a restart takes less than a minute."""
SCHEDULE_WATCHED = "schedule_watched"
"""Its subject is a DAG; its detail has `file` and `by_itself`. Slots before its first entry are not expected."""
CODES: tuple[FailureCode, ...] = ("dag_unreadable", "dag_missing", "dag_paused", "dag_late", "task_failed")
STATE_CODES: tuple[FailureCode, ...] = ("dag_paused", "dag_late")
"""Of these Airflow alone knows the state of a DAG."""
_AUTHOR, _MOST = "plumbline", 100_000

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
"""The remedy of a task that has one of its own; any other has that of its DAG."""


def dag_failures(
    archive: Archive, files: DagFiles, airflow: AirflowView, now: datetime, benchmarks: Collection[str]
) -> Iterator[InstallationFailure]:
    """`benchmarks`: DAGs whose slots are judged with their declarations."""
    known = _known_dags(archive, files, now)
    yield from (_unreadable(file, why, now) for file, why in sorted(files.unreadable.items()))
    yield from _gone(files, known, now)
    for dag_id, dag in sorted(files.dags.items()):
        state, since = airflow.dag(dag_id), known[dag_id][0].at if dag_id in known else now
        if state is None:
            if since + START_GRACE <= now:
                yield _absent(dag, since)
        elif state.paused:
            if dag.by_itself:
                yield _paused(dag, now)
        elif dag_id not in benchmarks and _is_late(dag, state.due, now) and not airflow.active(dag_id):
            yield _late(dag, state.due or now)
    yield from _failed_runs(files, airflow)


def watched_since(archive: Archive, dag_id: str, now: datetime, detail: Mapping[str, object] | None = None) -> datetime:
    """When the checks first saw the DAG; noted if they never did."""
    first = next((entry.at for entry in archive.audit(dag_id) if entry.what == SCHEDULE_WATCHED), None)
    if first is None:
        _note(archive, dag_id, detail or {})
    return first or now


def _note(archive: Archive, dag_id: str, detail: Mapping[str, object]) -> None:
    archive.add_audit(who=_AUTHOR, what=SCHEDULE_WATCHED, subject=dag_id, why="slots from now on are expected to start", detail=detail)


def _known_dags(archive: Archive, files: DagFiles, now: datetime) -> dict[str, list[AuditView]]:
    """DAG → what earlier checks noted of it, oldest first; notes what is new."""
    known: dict[str, list[AuditView]] = {}
    for entry in reversed(archive.audit_between((SCHEDULE_WATCHED,), (None, None), _MOST)):
        known.setdefault(entry.subject, []).append(entry)
    for dag_id, dag in files.dags.items():
        detail = {"file": dag.file, "by_itself": dag.by_itself}
        if dag_id not in known or dict(known[dag_id][-1].detail) != detail:
            _note(archive, dag_id, detail)
    return known


def _unreadable(file: str, why: str, now: datetime) -> InstallationFailure:
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


def _gone(files: DagFiles, known: Mapping[str, Sequence[AuditView]], now: datetime) -> Iterator[InstallationFailure]:
    """DAGs of earlier checks that no file declares any more. A provider's benchmark goes with its declaration, unless its whole file is gone."""
    lost: dict[str, list[str]] = {}
    for dag_id, entries in known.items():
        file = str(entries[-1].detail.get("file") or "")
        if not file or dag_id in files.dags or file in files.unreadable:
            continue
        if file not in files.files:
            lost.setdefault(file, []).append(dag_id)
        elif entries[-1].detail.get("by_itself"):
            lost.setdefault(dag_id, []).append(dag_id)
    for what, dag_ids in sorted(lost.items()):
        newest = max(known[dag_id][-1].at for dag_id in dag_ids)
        yield InstallationFailure(
            code="dag_missing",
            what=what,
            occurrence=newest.isoformat(timespec="seconds"),
            since=now,
            severity="page",
            title=f"{shorten(sorted(dag_ids))} no longer run{'s' if len(dag_ids) == 1 else ''}",
            cause=f"{what} is not among the DAG files" if what not in dag_ids else "its file no longer declares it",
            remedy="Bring the file back (`git status dags`, or `plumbline airflow init`), or resolve this finding if it was removed on purpose",
        )


def _absent(dag: DeclaredDag, since: datetime) -> InstallationFailure:
    return InstallationFailure(
        code="dag_missing",
        what=dag.dag_id,
        occurrence=since.isoformat(timespec="seconds"),
        since=since,
        severity="page",
        title=f"Airflow does not have {dag.dag_id}: it does not run",
        cause=f"{dag.file} declares it since {since:%Y-%m-%d %H:%M} UTC at least",
        remedy="`docker compose up -d dag-processor`, then `plumbline airflow dags list-import-errors`",
    )


def _paused(dag: DeclaredDag, now: datetime) -> InstallationFailure:
    return InstallationFailure(
        code="dag_paused",
        what=dag.dag_id,
        occurrence=f"{now:%Y-%m-%d}",
        since=now,
        severity="warn",
        title=f"{dag.dag_id} is paused",
        cause="the DAG runs by itself on a team server" if dag.scheduled else "a run of it would wait: results, pages or people start it",
        remedy=f"`plumbline airflow dags unpause {dag.dag_id}`",
    )


def _is_late(dag: DeclaredDag, due: datetime | None, now: datetime) -> bool:
    """`due`: as Airflow has it. A slot that Airflow does not wait for is not due: a DAG that was deployed or unpaused since."""
    return bool(dag.slots) and due is not None and due <= dag.slots[0] and due + START_GRACE <= now


def _late(dag: DeclaredDag, due: datetime) -> InstallationFailure:
    return InstallationFailure(
        code="dag_late",
        what=dag.dag_id,
        occurrence=due.isoformat(timespec="seconds"),
        since=due,
        severity="warn",
        title=f"{dag.dag_id} did not run at {due:%Y-%m-%d %H:%M} UTC",
        cause="the scheduler did not start it, and no run of it is active",
        remedy=f"`plumbline doctor`; start it now with `plumbline airflow dags trigger {dag.dag_id}`",
    )


def _failed_runs(files: DagFiles, airflow: AirflowView) -> Iterator[InstallationFailure]:
    for dag in (dag for dag in files.watched if dag.tasks):
        if dag.repeats:
            newest = airflow.newest_states(dag)
            runs = {} if newest is None else {newest[0]: newest[1]}
        else:
            runs = dict(airflow.task_states(dag.dag_id, dag.tasks))
        for run_id, states in runs.items():
            if tasks := tuple(sorted(task for task, state in states.items() if state == "failed")):
                yield _task_failed(dag, run_id, tasks)


def _task_failed(dag: DeclaredDag, run_id: str, tasks: Sequence[str]) -> InstallationFailure:
    names = sorted({re.sub(r"_\d+$", "", task).rpartition(".")[2] for task in tasks})
    again = "the next run tries again" if dag.repeats else "clear the task"
    general = f"Read the task's log and 'Triage' on the page of {dag.dag_id}; {again}"
    return InstallationFailure(
        code="task_failed",
        what=dag.dag_id if dag.repeats else f"{dag.dag_id} {run_id}",
        occurrence=run_id,
        since=_time_of(run_id),
        severity="page" if "verify" in names else "warn",
        title=f"{shorten(names)} failed in {dag.dag_id}",
        cause=f"run {run_id}: {shorten(tasks)}",
        remedy="; ".join(dict.fromkeys(f"{name}: {_REMEDIES[name]}" if name in _REMEDIES else general for name in names)),
    )


def _time_of(run_id: str) -> datetime:
    """The time in a run id; the present for an id without one."""
    match = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", run_id)
    return datetime.fromisoformat(match[0]).replace(tzinfo=timezone.utc) if match else datetime.now(timezone.utc)
