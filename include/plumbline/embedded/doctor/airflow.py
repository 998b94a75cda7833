"""Airflow's components by its health page, or by their heartbeats where that does not answer; DAGs, pools and connections by its database."""

from __future__ import annotations

import configparser
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from plumbline.alerts.notifier_channel import NotifierSender, example_post
from plumbline.declarations import Declarations
from plumbline.declarations.alert_channels import NotifierChannel, WebhookChannel
from plumbline.declarations.connections import needed_by_triggerer
from plumbline.declarations.installation import REQUEST_KEY
from plumbline.embedded.connections import variable
from plumbline.embedded.doctor.dag_files import declared_dags
from plumbline.embedded.doctor.databases import AirflowPlace, read_only
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.workflows.plan import CONNECTIONS_TASK, POOL_DESCRIPTION, pool_slots

_JOBS = {"scheduler": "SchedulerJob", "dag_processor": "DagProcessorJob", "triggerer": "TriggererJob"}
_AWAY_AFTER = timedelta(minutes=2)
_TIMEOUT_S = 10.0
SLACK = "plumbline_slack"
_DATABASE_FIRST = "repair what the line about Airflow's database names"


@dataclass(frozen=True)
class Metadata:
    """The state in Airflow's database. `dags`: id → paused, of those that are not stale; `beats`: component → last heartbeat."""

    dags: dict[str, bool] = field(default_factory=dict)
    import_errors: dict[str, str] = field(default_factory=dict)
    pools: dict[str, int] = field(default_factory=dict)
    connections: frozenset[str] = frozenset()
    beats: dict[str, datetime] = field(default_factory=dict)
    answer: tuple[datetime, Mapping[str, Any]] | None = None
    """The triggerer's last answer about its connections, and when it gave it."""


def metadata(place: AirflowPlace) -> Metadata | None:
    """None if there is no such database, or it does not answer, which its own line says."""
    if place.database is None:
        return None
    try:
        with read_only(place.database) as connection:
            return None if connection is None else _read(connection)
    except (SQLAlchemyError, ValueError, OSError):
        return None


def _without_database(place: AirflowPlace, check: str, name: str = "") -> DoctorCheck:
    """A check that Airflow's database alone could answer."""
    if place.kind == "none":
        return skipped(check, f"{name}not applicable: no Airflow was started in this installation")
    return unknown(check, f"{name}Airflow's database does not answer", _DATABASE_FIRST)


def _read(connection: Connection) -> Metadata:
    def rows(query: str) -> Iterable[tuple[object, ...]]:
        return (tuple(row) for row in connection.execute(text(query)))

    jobs = {job: name for name, job in _JOBS.items()}
    beats = {
        jobs[str(job)]: _time(at) for job, at in rows("SELECT job_type, MAX(latest_heartbeat) FROM job GROUP BY job_type") if job in jobs
    }
    task = "SELECT timestamp, value FROM xcom WHERE dag_id = '{}' AND task_id = '{}' AND key = 'return_value'".format(*CONNECTIONS_TASK)
    answers = [(_time(at), json.loads(row) if isinstance(row, str) else row) for at, row in rows(f"{task} ORDER BY timestamp DESC LIMIT 1")]
    return Metadata(
        dags={str(dag): bool(paused) for dag, paused in rows("SELECT dag_id, is_paused FROM dag WHERE NOT is_stale")},
        import_errors={str(file): str(trace) for file, trace in rows("SELECT filename, stacktrace FROM import_error")},
        pools={str(pool): int(str(slots)) for pool, slots in rows("SELECT pool, slots FROM slot_pool")},
        connections=frozenset(str(row[0]) for row in rows("SELECT conn_id FROM connection")),
        beats={name: at for name, at in beats.items() if at is not None},
        answer=next(((at, row) for at, row in answers if at is not None and isinstance(row, dict)), None),
    )


def _time(value: object) -> datetime | None:
    """SQLite hands out text without a zone, PostgreSQL a time."""
    if value is None:
        return None
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)


def components(place: AirflowPlace, known: Metadata | None, now: datetime) -> Iterator[DoctorCheck]:
    """The API server, the scheduler, the DAG processor and the triggerer."""
    names = ("api-server", *(name.replace("_", "-") for name in _JOBS))
    if not place.running:
        why = (
            "no Airflow was started in this installation" if place.kind == "none" else "no Airflow runs here now; `plumbline up` starts one"
        )
        yield from (skipped(name, f"not applicable: {why}") for name in names)
        return
    health: dict[str, dict[str, str]] | None = None
    if place.address is None:
        yield unknown("api-server", "its address is not named", "set AIRFLOW__CORE__EXECUTION_API_SERVER_URL")
    else:
        url = f"{place.address.rstrip('/')}/api/v2/monitor/health"
        try:
            health = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status().json()
            yield ok("api-server", f"answers at {place.address}")
        except (httpx.HTTPError, ValueError) as error:
            yield failed("api-server", f"{url} does not answer: {error}", place.start("api-server"))
    for name in _JOBS:
        beat = (
            _time((health.get(name) or {}).get(f"latest_{name}_heartbeat"))
            if health is not None
            else (known.beats.get(name) if known else None)
        )
        service = name.replace("_", "-")
        if beat is None and health is None and known is None:
            yield unknown(service, "neither the API server nor Airflow's database says whether it runs", _DATABASE_FIRST)
        elif beat is None:
            yield failed(service, "never had a heartbeat", place.start(service))
        elif now - beat > _AWAY_AFTER:
            yield failed(service, f"last heartbeat at {beat.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC", place.start(service))
        else:
            yield ok(service, f"last heartbeat {max((now - beat).total_seconds(), 0):.0f} s ago")


def dags(place: AirflowPlace, known: Metadata | None, declared: Declarations | None, files: Path) -> Iterator[DoctorCheck]:
    """DAG files that cannot be parsed, DAGs of files and benchmarks that are not there, and what is paused. `files`: the folder of the DAG files."""
    if known is None:
        yield _without_database(place, "DAGs")
        return
    for file, trace in sorted(known.import_errors.items()):
        last = next((line.strip() for line in reversed(trace.splitlines()) if line.strip()), "no reason given")
        yield failed("DAG files", f"{file} cannot be parsed: {last}", "repair it, or the declaration that it names (`plumbline check`)")
    wanted = {p.dag_id: bool(declared.monthly_workloads(p)) for p in declared.enabled_providers()} if declared else {}
    if not known.dags and place.kind == "embedded":
        yield skipped("DAGs", "not applicable: no DAG was read here yet; the first start reads them")
        return
    of_files = declared_dags(files)
    if not of_files:
        yield unknown("DAG files", f"{files} has none, so what must run is not known", "run the doctor where the DAG files are")
    for dag_id in sorted(dag_id for dag_id in {*wanted, *of_files} if dag_id not in known.dags and not known.import_errors):
        yield failed("DAGs", f"{dag_id} is not in Airflow", place.start("dag-processor") + "; it reads the files every two minutes")
    needed = {*(d for d, monthly in wanted.items() if monthly), *(d for d, by_itself in of_files.items() if by_itself)}
    paused = [dag_id for dag_id in needed if known.dags.get(dag_id)]
    if place.kind == "embedded":
        yield ok("paused DAGs", f"{len(paused)}: on one machine nothing starts by itself" if paused else "none")
        return
    for dag_id in sorted(paused):
        benchmark = " (or set `enabled: false` in its declaration)" if dag_id in wanted else ""
        yield failed("paused DAGs", f"{dag_id} is paused: its runs do not start", f"`plumbline airflow dags unpause {dag_id}`{benchmark}")
    if not paused:
        yield ok("paused DAGs", "none that is needed")


def pools(place: AirflowPlace, known: Metadata | None, declared: Declarations | None) -> Iterator[DoctorCheck]:
    """One for each enabled provider."""
    if known is None:
        yield _without_database(place, "pools")
        return
    if declared is None:
        yield unknown("pools", "the declarations cannot be read", "repair what the line about declarations names")
        return
    wanted = pool_slots(declared.enabled_providers())
    for name, slots in wanted.items():
        remedy = {
            "server": "`docker compose run --rm init` makes it",
            "shared": f'`airflow pools set {name} {slots} "{POOL_DESCRIPTION}" --include-deferred` makes it',
        }.get(place.kind, "`plumbline up`, started again, makes it")
        if name not in known.pools:
            yield failed("pools", f"{name} is missing", remedy)
        elif known.pools[name] != slots:
            yield failed("pools", f"{name} has {known.pools[name]} slots; declared are {slots}", remedy.replace("makes", "corrects"))
    if all(known.pools.get(name) == slots for name, slots in wanted.items()):
        yield ok("pools", f"{len(wanted)} for the enabled providers")


def connections(place: AirflowPlace, known: Metadata | None, declared: Declarations | None) -> Iterator[DoctorCheck]:
    """Connections that enabled providers on clusters name, and Slack's, which is optional."""
    providers = declared.enabled_providers() if declared else []
    wanted = sorted({name for p in providers if p.launcher.runs_pods for name in p.launcher.connections})
    backend = os.environ.get("AIRFLOW__SECRETS__BACKEND")

    def there(name: str) -> bool:
        return variable(name) in os.environ or (known is not None and name in known.connections)

    missing = [name for name in wanted if not there(name)]
    for name in missing:
        if known is None:
            yield _without_database(place, "connections", f"{name} is not in the environment; ")
        elif backend:
            yield unknown(
                "connections", f"{name} is not in Airflow's database; {backend} may hold it", f"`plumbline airflow connections get {name}`"
            )
        else:
            yield failed(
                "connections",
                f"{name} is missing",
                "`plumbline cluster kubeconfig PROVIDER --as connection`, then import it (docs/clusters.md)",
            )
    if declared is None:
        yield unknown("connections", "the declarations cannot be read", "repair what the line about declarations names")
    elif not wanted:
        yield skipped("connections", "not applicable: no enabled provider needs one")
    elif not missing:
        yield ok("connections", f"{len(wanted)} for the enabled providers")
    yield from _of_triggerer(place, known, declared)
    if there(SLACK):
        yield ok("alerts", f"Slack by {SLACK}")
    elif backend:
        yield skipped("alerts", f"optional: Slack if {backend} holds {SLACK} (`plumbline airflow connections get {SLACK}`)")
    else:
        yield skipped("alerts", f"optional: no connection {SLACK}: Slack gets no finding (docs/alerts.md)")
    for name, channel in (declared.alerts.channels if declared else {}).items():
        yield from _channel(name, channel, there, backend)


def _channel(name: str, channel: object, there: Callable[[str], bool], backend: str | None) -> Iterator[DoctorCheck]:
    """What a declared channel needs: its notifier is made, and nothing is sent."""
    if isinstance(channel, WebhookChannel):
        if there(channel.connection):
            yield unknown(
                "alerts",
                f"{name}: {channel.connection} is defined; its secret was not read, and nothing was sent",
                "wait for the first alert, or read the log of the task that sends it",
            )
        elif backend:
            yield unknown(
                "alerts", f"{name}: {backend} may hold {channel.connection}", f"`plumbline airflow connections get {channel.connection}`"
            )
        else:
            yield failed(
                "alerts", f"{name} names the connection {channel.connection}, which is missing", "add it in Airflow (docs/alerts.md)"
            )
    elif isinstance(channel, NotifierChannel):
        try:
            NotifierSender(channel).notifier(example_post())
        except Exception as error:  # noqa: BLE001 (a provider's class has its own errors)
            yield failed(
                "alerts",
                f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
                "repair alerts.yaml, or install its provider",
            )
        else:
            yield ok("alerts", f"{name} by {channel.class_path.rpartition('.')[2]}, made and not sent")


def request_key(place: AirflowPlace, environ: Mapping[str, str] = os.environ) -> DoctorCheck:
    """Whether there is a key that signs what the pages' buttons ask for: without it they start nothing."""
    check = "buttons' signature"
    if place.kind == "none":
        return skipped(check, "not applicable: no Airflow was started in this installation")
    if place.kind == "embedded":
        return ok(check, "Airflow's fernet_key, made at its first start")
    given = [name for name in (REQUEST_KEY, f"{REQUEST_KEY}_CMD", f"{REQUEST_KEY}_SECRET") if environ.get(name, "").strip(" ,")]
    if given:
        return ok(check, f"{given[0]}, as long as all components have the same")
    settings = configparser.ConfigParser(interpolation=None)
    file = environ.get("AIRFLOW_CONFIG") or Path(environ.get("AIRFLOW_HOME") or "~/airflow").expanduser() / "airflow.cfg"
    try:
        settings.read(file)
    except (configparser.Error, ValueError) as error:
        return unknown(check, f"{file} cannot be read: {str(error).splitlines()[0]}", f"repair it, or set {REQUEST_KEY}")
    if settings.get("core", "fernet_key", fallback="").strip(" ,"):
        return ok(check, f"fernet_key of {file}, as long as all components have the same")
    return failed(
        check,
        "Airflow has no fernet_key, so the pages' buttons start nothing",
        f"set {REQUEST_KEY} for the API server and the workers (`make server-env` writes one)",
    )


_ANSWER_HOLDS = timedelta(hours=2)
"""upkeep asks each hour."""


def _of_triggerer(place: AirflowPlace, known: Metadata | None, declared: Declarations | None) -> Iterator[DoctorCheck]:
    """What the triggerer itself answered when upkeep last asked it: it may lack what the worker has."""
    check, wanted = "triggerer's connections", sorted(needed_by_triggerer(declared)) if declared else []
    if not wanted:
        return
    if not place.serves_a_team:
        yield skipped(check, "not applicable: on one machine all components read the same")
        return
    if known is None:
        yield _without_database(place, check)
        return
    ask = f"`plumbline airflow dags trigger {CONNECTIONS_TASK[0]}` asks it; start the triggerer if it does not answer within minutes"
    if known.answer is None:
        yield unknown(check, "not shown: no triggerer was asked yet", ask)
        return
    at, answer = known.answer
    said = f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
    if datetime.now(timezone.utc) - at > _ANSWER_HOLDS:
        yield unknown(check, f"not shown: the triggerer answered last at {said}", ask)
        return
    lacks = [name for name in wanted if name in answer.get("missing", ())]
    for name in lacks:
        where = "Airflow's database, the secrets backend, or the triggerer's own environment"
        yield failed(
            check,
            f"at {said} the triggerer lacked {name}",
            f"define it in {where}; `plumbline airflow dags trigger {CONNECTIONS_TASK[0]}` asks again",
        )
    if silent := [name for name in wanted if name not in lacks and name not in answer.get("there", ())]:
        yield unknown(check, f"not shown: at {said} the triggerer said nothing of {', '.join(silent)}", ask)
    elif not lacks:
        yield ok(check, f"{len(wanted)}, as it answered at {said}")
