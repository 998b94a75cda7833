"""Client of Airflow's REST API: the running Airflow of a command, DAG runs, tasks and logs, pausing."""

from __future__ import annotations

import configparser
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from plumbline.declarations import installation_paths
from plumbline.declarations.urls import sends_in_clear, url_problem
from plumbline.embedded.settings import USERNAME, password
from plumbline.whole_file import write_whole
from plumbline.workflows.plan import POOL_DESCRIPTION, PlannedRun, RunsNotStarted, paused_text

_PAGE = 100  # Airflow's own upper limit
_TIMEOUT_S = 30.0
_WORDS = 300
_WAITS_S = (0.5, 1.0, 2.0, 4.0)

RUN_ENDED = frozenset({"success", "failed"})
TASK_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


class AirflowError(RuntimeError):
    """Airflow refused a request or did not answer. `status`: the HTTP status of a refusal, else None."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _Row(BaseModel):
    """An object in Airflow's answers, of which only these fields are read."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class DagState(_Row):
    """`parsed_at`: None until the DAG processor has read the file."""

    is_paused: bool
    is_stale: bool
    parsed_at: datetime | None = Field(alias="last_parsed_time")


class DagRun(_Row):
    dag_id: str
    run_id: str = Field(alias="dag_run_id")
    state: str
    run_type: str
    conf: Annotated[Mapping[str, Any], BeforeValidator(lambda conf: conf or {})]

    @property
    def ended(self) -> bool:
        return self.state in RUN_ENDED


class TaskInstance(_Row):
    """`map_index`: -1 for an unmapped task; `name`: the rendered map index, None before it is known."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    name: str | None = Field(alias="rendered_map_index")
    started_at: datetime | None = Field(alias="start_date")
    ended_at: datetime | None = Field(alias="end_date")

    @property
    def ended(self) -> bool:
        return self.state in TASK_ENDED


class AirflowClient:
    """Logs in as one user and renews an expired token once a request. Use as a context manager or `close`."""

    def __init__(self, address: str, username: str, password: str, *, patience_s: float = 0.0) -> None:
        """`patience_s`: how long requests are retried while the server refuses or drops connections or answers too late."""
        self._patience_s = patience_s
        self._credentials = {"username": username, "password": password}
        self._http = httpx.Client(base_url=address, timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> AirflowClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def dags(self) -> dict[str, DagState]:
        """DAGs by id, stale ones too."""
        rows = self._pages("/api/v2/dags", "dags", {"exclude_stale": False})
        return {d["dag_id"]: DagState.model_validate(d) for d in rows}

    def import_errors(self, since: datetime | None = None) -> dict[str, str]:
        """File → error text; `since`: only of imports at that time or later."""
        errors = self._pages("/api/v2/importErrors", "import_errors")
        times = ((e, _time(e.get("timestamp"))) for e in errors)
        return {e["filename"]: e["stack_trace"] for e, at in times if since is None or at is None or at >= since}

    def set_paused(self, dag_id: str, paused: bool) -> None:
        self._call("PATCH", f"/api/v2/dags/{_part(dag_id)}", {"is_paused": paused})

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> DagRun:
        """Start a run; Airflow validates `conf` against the DAG's params. The run id is chosen here, so a retry starts no second run."""
        run_id = f"manual__{datetime.now(timezone.utc).isoformat()}_{secrets.token_hex(4)}"
        path, body = f"/api/v2/dags/{_part(dag_id)}/dagRuns", {"logical_date": None, "conf": dict(conf), "dag_run_id": run_id}
        answer = self._send("POST", path, body, repeatable=True)
        if answer.status_code == httpx.codes.CONFLICT:  # an earlier try started it and its answer was lost
            return self.run(dag_id, run_id)
        return DagRun.model_validate(_content("POST", path, answer))

    def run(self, dag_id: str, run_id: str) -> DagRun:
        return DagRun.model_validate(self._call("GET", f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}"))

    def runs(self, dag_id: str, since: datetime) -> list[DagRun]:
        """Runs of a DAG that were due at `since` or later, oldest first."""
        return self._runs(dag_id, {"run_after_gte": since.isoformat()})

    def active_runs(self, dag_id: str) -> list[DagRun]:
        """Runs of a DAG that are queued or running, oldest first."""
        return self._runs(dag_id, {"state": ["queued", "running"]})

    def end_run(self, dag_id: str, run_id: str, note: str) -> None:
        """Mark a run failed, which ends its running tasks."""
        self._call("PATCH", f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}", {"state": "failed", "note": note})

    def tasks(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Every task instance of a run, one for each map index."""
        path = f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}/taskInstances"
        return [TaskInstance.model_validate(t) for t in self._pages(path, "task_instances")]

    def upstream_events(self, dag_id: str, run_id: str) -> list[Mapping[str, Any]]:
        """The `extra` of each asset event that started a run."""
        answer = self._call("GET", f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}/upstreamAssetEvents")
        return [e.get("extra") or {} for e in answer["asset_events"]]

    def task_log(self, dag_id: str, run_id: str, task: TaskInstance) -> str:
        """The text of a task's log, its newest try."""
        path = f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}/taskInstances/{_part(task.task_id)}/logs/{max(task.try_number, 1)}"
        answer = self._call("GET", path, query={"map_index": task.map_index, "full_content": True})
        content = answer.get("content") or []
        return "\n".join(_log_line(line) for line in content) if isinstance(content, list) else str(content)

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """The return value of an unmapped task."""
        path = f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}/taskInstances/{_part(task_id)}/xcomEntries/return_value"
        value = self._call("GET", path)["value"]
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            return value

    def has_pool(self, name: str) -> bool:
        path = f"/api/v2/pools/{_part(name)}"
        answer = self._send("GET", path)
        return answer.status_code != httpx.codes.NOT_FOUND and _content("GET", path, answer) is not None

    def put_pool(self, name: str, slots: int, description: str) -> None:
        """Create or update a pool. Deferred tasks count: a waiting trial still holds its GPUs."""
        body = {"name": name, "slots": slots, "description": description, "include_deferred": True}
        if not self.has_pool(name):
            self._call("POST", "/api/v2/pools", body)
        else:
            self._call("PATCH", f"/api/v2/pools/{_part(name)}", {**{k: v for k, v in body.items() if k != "name"}, "pool": name})

    def _runs(self, dag_id: str, query: Mapping[str, Any]) -> list[DagRun]:
        rows = self._pages(f"/api/v2/dags/{_part(dag_id)}/dagRuns", "dag_runs", {**query, "order_by": "run_after"})
        return [DagRun.model_validate(row) for row in rows]

    def _pages(self, path: str, field: str, query: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        offset = 0
        while True:
            answer = self._call("GET", path, query={**(query or {}), "limit": _PAGE, "offset": offset})
            yield from answer[field]
            offset += _PAGE
            if offset >= answer["total_entries"]:
                return

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None) -> Any:
        return _content(method, path, self._send(method, path, body, query, repeatable=method != "POST"))

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = True,
    ) -> httpx.Response:
        """`repeatable`: the request is idempotent, so it is retried after a server error."""
        if "Authorization" not in self._http.headers:
            self.login()
        answer = self._request(method, path, body, query, repeatable)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self.login()
            answer = self._request(method, path, body, query, repeatable)
        # A scheduler that holds SQLite's one lock makes the API server give up.
        for wait_s in _WAITS_S if repeatable else ():
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                break
            time.sleep(wait_s)
            answer = self._request(method, path, body, query, repeatable)
        return answer

    def login(self) -> None:
        """Log in now; other calls log in when they need to."""
        answer = self._request("POST", "/auth/token", self._credentials, None, repeatable=True)
        if answer.is_error:
            raise AirflowError(
                f"login at {self._http.base_url} as {self._credentials['username']}: {answer.status_code} {_detail(answer)}",
                answer.status_code,
            )
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, Any] | None, repeatable: bool
    ) -> httpx.Response:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return self._http.request(method, path, json=body, params=query, headers={"Accept": "application/json"})
            except httpx.HTTPError as error:
                # Any other request may have arrived unless the connection itself was refused.
                again = isinstance(error, httpx.ConnectError) or (repeatable and isinstance(error, httpx.TransportError))
                if not again or time.monotonic() >= deadline:
                    raise AirflowError(f"{method} {self._http.base_url.join(path)}: no answer ({error or type(error).__name__})") from error
            time.sleep(_WAITS_S[0])


def _content(method: str, path: str, answer: httpx.Response) -> Any:
    if answer.is_error:
        raise AirflowError(f"{method} {path}: {answer.status_code} {_detail(answer)}", answer.status_code)
    try:
        return answer.json() if answer.content else None
    except ValueError:
        raise AirflowError(f"{method} {path}: the answer is not JSON: {answer.text[:_WORDS]}", answer.status_code) from None


def _part(text: str) -> str:
    return quote(text, safe="")


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def _log_line(line: object) -> str:
    """A log entry's text with its exception."""
    if not isinstance(line, dict):
        return str(line)
    raised = [f"{e.get('exc_type')}: {e.get('exc_value')}" for e in line.get("error_detail") or ()]
    return "\n".join([str(line.get("event", "")), *raised])


def _detail(answer: httpx.Response) -> str:
    """Airflow's `detail`: a sentence, or a list of validation errors with their fields."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:_WORDS] or answer.reason_phrase
    if isinstance(detail, list):
        return "; ".join(f"{'.'.join(map(str, e.get('loc', ())))}: {e.get('msg', e)}" for e in detail)
    return str(detail)


ADDRESS, USER, PASSWORD = "PLUMBLINE_AIRFLOW_URL", "PLUMBLINE_AIRFLOW_USER", "PLUMBLINE_AIRFLOW_PASSWORD"
_HOW = f"start one with `plumbline up`, or set {ADDRESS}, {USER} and {PASSWORD} of a team's server"


def airflow_address() -> str:
    """Base URL of the Airflow; AirflowError if the environment names none and this installation never started one."""
    configured = os.environ.get(ADDRESS)
    if configured:
        if problem := url_problem(configured) or (
            "is plain http, which would send the password in clear" if sends_in_clear(configured) else ""
        ):
            raise AirflowError(f"{ADDRESS} {problem}; expected an address such as https://plumbline.example.com")
        return configured.rstrip("/")
    settings = configparser.ConfigParser(interpolation=None)
    if not settings.read(installation_paths().airflow_home / "airflow.cfg"):
        raise AirflowError(f"no Airflow in {installation_paths().airflow_home}; {_HOW}")
    return settings["api"]["base_url"]


def connect() -> AirflowClient:
    """A client that has logged in. AirflowError with a remedy if nothing answers, or the login is refused or missing."""
    url = airflow_address()
    client = AirflowClient(url, *_login())
    try:
        client.login()
    except AirflowError as error:
        client.close()
        raise AirflowError(f"Airflow at {url} cannot be used: {error}\n{_HOW}", error.status) from error
    return client


def _login() -> tuple[str, str]:
    if not os.environ.get(ADDRESS):
        return USERNAME, password(installation_paths().airflow_home)
    missing = [name for name in (USER, PASSWORD) if not os.environ.get(name)]
    if missing:
        raise AirflowError(
            f"{ADDRESS} is set but {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not; expected the login of that server"
        )
    return os.environ[USER], os.environ[PASSWORD]


@dataclass(frozen=True)
class StartedRun:
    """`waits_for`: the active run before it, as a DAG runs one at a time; None without one."""

    start: PlannedRun
    run_id: str
    state: str
    waits_for: str | None


def start_runs(client: AirflowClient, planned: Sequence[PlannedRun]) -> list[StartedRun]:
    """Start every run, or none: RunsNotStarted if a DAG is missing or paused, or its pool cannot be created, so that its run would wait.

    AirflowError if Airflow fails or refuses a run nevertheless; its message names the runs that were started before.
    """
    known = client.dags()
    problems = []
    for start in planned:
        dag = known.get(start.dag_id)
        if dag is None or dag.is_stale:
            problems.append(f"{start.dag_id} is not in that Airflow; expected one that has read the same declarations")
        elif dag.is_paused:
            problems.append(paused_text(start.dag_id))
    if not problems:
        problems = [problem for start in planned if (problem := _pool_missing(client, start)) is not None]
    if problems:
        raise RunsNotStarted("\n".join(problems))
    started: list[StartedRun] = []
    for start in planned:
        try:
            before = client.active_runs(start.dag_id)
            run = client.trigger(start.dag_id, start.conf)
        except AirflowError as error:
            already = ", ".join(f"{one.start.dag_id} {one.run_id}" for one in started)
            raise AirflowError(f"{start.dag_id}: {error}\nstarted before: {already or 'none'}") from error
        started.append(StartedRun(start, run.run_id, run.state, before[-1].run_id if before else None))
    return started


def _pool_missing(client: AirflowClient, start: PlannedRun) -> str | None:
    """Create the pool if it does not exist; the problem if that fails."""
    try:
        if not client.has_pool(start.pool):
            client.put_pool(start.pool, start.slots, POOL_DESCRIPTION)
    except AirflowError as error:
        return (
            f"{start.dag_id} has no pool {start.pool}, which its trials wait for, and it could not be created ({error}); "
            f"`docker compose run --rm init` creates it"
        )
    return None


_KILLED = "ended: the command that started it was killed"


def unpause(home: Path, client: AirflowClient, dag_ids: Iterable[str]) -> None:
    """Unpause these DAGs and store which were paused. AirflowError if one is missing, as after an edit of its declaration."""
    known = client.dags()
    wanted = list(dag_ids)
    if gone := [d for d in wanted if d not in known]:
        raise AirflowError(f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} no longer in Airflow; was a declaration edited?")
    write_whole(_file(home), json.dumps(sorted({*_remembered(home), *(d for d in wanted if known[d].is_paused)})))
    for dag_id in wanted:
        client.set_paused(dag_id, False)


def pause_again(home: Path, client: AirflowClient) -> None:
    """Pause the DAGs that `unpause` stored, and end the runs that a killed command left in them."""
    known = client.dags()
    for dag_id in _remembered(home):
        if dag_id in known:  # its provider may not be declared any more
            client.set_paused(dag_id, True)
            end_active_runs(client, dag_id)
    _file(home).unlink(missing_ok=True)


def end_active_runs(client: AirflowClient, dag_id: str) -> None:
    """End the runs that an earlier command left queued or running."""
    for run in client.active_runs(dag_id):
        client.end_run(dag_id, run.run_id, _KILLED)


def end_runs_since(client: AirflowClient, dag_id: str, since: datetime, why: str) -> None:
    """End the active runs of a DAG that were due at `since` or later."""
    for run in client.runs(dag_id, since):
        if not run.ended:
            client.end_run(dag_id, run.run_id, why)


def _file(home: Path) -> Path:
    return home / "unpaused.json"


def _remembered(home: Path) -> list[str]:
    file = _file(home)
    return list(json.loads(file.read_text())) if file.exists() else []
