"""A small real HTTP server that answers like Airflow's REST API: tokens that run out, pages, pools, errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class FakeAirflow:
    """What the server holds, and every request it saw as (method, path, query, body)."""

    address: str = ""
    password: str = "right"
    token: int = 1
    dags: list[dict[str, Any]] = field(default_factory=list)
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    seen: list[tuple[str, str, dict[str, list[str]], Any]] = field(default_factory=list)
    logins: int = 0
    drop: int = 0
    """So many requests are cut off without an answer, as by a server that is restarted."""
    lose: int = 0
    """The answers of so many starts of a run are a 500 although the run began, as where SQLite is locked after the insert."""
    health: dict[str, Any] = field(default_factory=dict)
    import_errors: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any, token: str | None) -> tuple[int, Any]:
        self.seen.append((method, path, query, body))
        if path == "/auth/token":
            self.logins += 1
            return (
                (201, {"access_token": str(self.token)}) if body["password"] == self.password else (401, {"detail": "Invalid credentials"})
            )
        if path == "/api/v2/monitor/health":  # needs no login
            return 200, self.health
        if token != f"Bearer {self.token}":
            return 401, {"detail": "Not authenticated"}
        if (method, path) in self.answers:
            return self.answers[method, path]
        if path == "/api/v2/importErrors":
            return 200, {"import_errors": self.import_errors, "total_entries": len(self.import_errors)}
        if path == "/api/v2/dags":
            offset, limit = int(query["offset"][0]), int(query["limit"][0])
            return 200, {"dags": self.dags[offset : offset + limit], "total_entries": len(self.dags)}
        if path.startswith("/api/v2/dags/") and "/dagRuns" in path:
            dag_id, run_id = path.split("/")[4], unquote(path.partition("/dagRuns")[2].strip("/"))
            return self._dag_run(dag_id, run_id) if run_id else self._dag_runs(dag_id, method, query, body)
        if path.startswith("/api/v2/pools"):
            name = path.removeprefix("/api/v2/pools").strip("/") or (body or {}).get("name")
            if method == "POST":
                self.pools[name] = body
            elif name not in self.pools:
                return 404, {"detail": f"The Pool with name: `{name}` was not found"}
            elif method == "PATCH":
                self.pools[name] |= body
            return 200, self.pools[name]
        return 404, {"detail": "Not Found"}

    def _dag_runs(self, dag_id: str, method: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if dag_id not in {d["dag_id"] for d in self.dags}:
            return 404, {"detail": f"The DAG with ID: `{dag_id}` was not found"}
        runs = self.runs.setdefault(dag_id, [])
        if method == "POST":
            run = {"dag_id": dag_id, "dag_run_id": body["dag_run_id"], "state": "queued", "run_type": "manual", "conf": body["conf"]}
            if any(r["dag_run_id"] == run["dag_run_id"] for r in runs):
                return 409, {"detail": "Unique constraint violation"}
            runs.append(run)
            if self.lose:
                self.lose -= 1
                return 500, {"detail": "database is locked"}
            return 200, run
        found = [r for r in runs if r["state"] in query.get("state", [r["state"]])]
        return 200, {"dag_runs": found, "total_entries": len(found)}

    def _dag_run(self, dag_id: str, run_id: str) -> tuple[int, Any]:
        found = [r for r in self.runs.get(dag_id, ()) if r["dag_run_id"] == run_id]
        return (200, found[0]) if found else (404, {"detail": f"The DagRun with run_id: `{run_id}` was not found"})


@contextmanager
def fake_airflow() -> Iterator[FakeAirflow]:
    """Serve until the block is left."""
    state = FakeAirflow()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            if state.drop:
                state.drop -= 1
                self.close_connection = True
                return
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, body = state.answer(
                self.command, parts.path, parse_qs(parts.query), json.loads(raw) if raw else None, self.headers.get("Authorization")
            )
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _any

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
