"""The HTTP side of the fake: routes, tokens, permissions, logs, and faults on demand."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.kubernetes_api.refusals import REASONS, Refused, not_found
from tests.fakes.kubernetes_api.store import CLUSTER_SCOPED, KINDS, seconds

if TYPE_CHECKING:
    from tests.fakes.fake_kubernetes import FakeKubernetes

_ROUTE = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?/?$"
)


@dataclass(frozen=True)
class Call:
    """One request as it came in. `code` is the answer's; None while it is worked on, or if the connection was cut."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    code: int | None


@dataclass
class Fault:
    """What goes wrong with the next `times` requests that match; `after_work`: the answer is lost, the work is done."""

    code: int
    times: int
    match: str
    retry_after: int | None
    message: str | None
    cut: bool
    after_work: bool


@dataclass
class Asked:
    """A request, taken apart."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    namespace: str | None = None
    plural: str = ""
    name: str = ""
    sub: str = ""
    group_version: str = "v1"
    answer_headers: dict[str, str] = field(default_factory=dict)

    @property
    def verb(self) -> str:
        if self.method == "GET":
            return "get" if self.name else "watch" if self.query.get("watch") in ("true", "True", "1") else "list"
        if self.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return {"POST": "create", "PATCH": "patch", "PUT": "update"}[self.method]

    @property
    def resource(self) -> str:
        """As `kubectl auth can-i` names it: pods, pods/log, jobsets.jobset.x-k8s.io."""
        group = self.group_version.rpartition("/")[0]
        return self.plural + (f".{group}" if group else "") + (f"/{self.sub}" if self.sub else "")


class Listener(ThreadingHTTPServer):
    """A server whose open connections can be cut."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, fake: FakeKubernetes, port: int) -> None:
        self.sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _handler(fake))

    def process_request(self, request: Any, client_address: Any) -> None:
        self.sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.sockets.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for held in list(self.sockets):
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or that was cut off, is nobody's error."""


def _handler(fake: FakeKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two writes: without this each answer waits for an ACK

        def _any(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
            asked = Asked(self.command, unquote(parts.path), query, json.loads(raw) if raw else None)
            fake.pause(asked)
            fault = fake.fault_for(asked)
            try:
                if fault is not None and not fault.after_work:
                    self._refuse(asked, fault)
                    return
                answer = _answer(fake, asked, self.headers.get("Authorization"))
                if fault is not None:
                    self._refuse(asked, fault)
                elif isinstance(answer, LogStream):
                    self._stream(asked, answer)
                else:
                    self._send(asked, 201 if asked.method == "POST" else 200, answer)
            except Refused as refused:
                self._send(asked, refused.code, refused.row)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _any

        def _refuse(self, asked: Asked, fault: Fault) -> None:
            if fault.cut:
                fake.note(asked, None)
                self.close_connection = True
                return
            if fault.retry_after is not None:
                asked.answer_headers["Retry-After"] = str(fault.retry_after)
            said = fault.message or f"the server answers {fault.code} on demand ({REASONS.get(fault.code, 'Unknown')})"
            # That a name is taken only the store says; on demand two writers meet.
            self._send(asked, fault.code, Refused(fault.code, said, "Conflict" if fault.code == 409 else None).row)

        def _send(self, asked: Asked, code: int, answer: Any) -> None:
            fake.note(asked, code)
            plain = isinstance(answer, str)
            data = answer.encode() if plain else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if plain else "application/json")
            self.send_header("Content-Length", str(len(data)))
            for key, value in asked.answer_headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, asked: Asked, log: LogStream) -> None:
            fake.note(asked, 200)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in log.pieces():
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + fake.clock_skew_s if timestamp is None else timestamp)

        def log_message(self, *args: object) -> None:
            """Quiet: `requests` is the log."""

    return Handler


class LogStream:
    """A followed log: what there is, then what comes, until the pod has ended."""

    def __init__(self, fake: FakeKubernetes, asked: Asked) -> None:
        self._fake, self._asked = fake, asked

    def pieces(self) -> Any:
        sent = 0
        while True:
            run = self._fake.runs.get((str(self._asked.namespace), self._asked.name))
            if run is None:
                return
            over = run.pod["status"].get("phase") in ("Succeeded", "Failed") or run.stopping.is_set()
            text = log_text(run.lines, self._asked.query)
            if len(text) > sent:
                yield text[sent:].encode()
                sent = len(text)
            if over:
                return
            time.sleep(0.02)


def log_text(lines: list[tuple[datetime, str]], query: dict[str, str]) -> str:
    """A log as asked for: tailLines, sinceSeconds, sinceTime, timestamps, limitBytes."""
    since = None
    if "sinceSeconds" in query:
        since = datetime.now(timezone.utc) - timedelta(seconds=int(query["sinceSeconds"]))
    elif "sinceTime" in query:
        since = datetime.fromisoformat(query["sinceTime"].replace("Z", "+00:00"))
    kept = [(at, line) for at, line in list(lines) if since is None or at >= since]
    if "tailLines" in query:
        kept = kept[len(kept) - int(query["tailLines"]) :] if int(query["tailLines"]) < len(kept) else kept
    stamped = query.get("timestamps", "").lower() in ("true", "1")
    text = "".join((at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if stamped else "") + line + "\n" for at, line in kept)
    return text[: int(query["limitBytes"])] if "limitBytes" in query else text


def _answer(fake: FakeKubernetes, asked: Asked, authorization: str | None) -> Any:
    if authorization != f"Bearer {fake.token}":
        raise Refused(401, "Unauthorized")
    if asked.path.rstrip("/") == "/version":
        built = dict.fromkeys(("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"), "fake")
        return {"major": "1", "minor": str(fake.minor), "gitVersion": f"v1.{fake.minor}.0", "platform": "linux/amd64", **built}
    if asked.path in ("/livez", "/readyz", "/healthz"):
        return "ok"
    if asked.path.rstrip("/") == "/apis":
        groups = sorted({version for version, _ in KINDS.values() if "/" in version and fake.serves(version)})
        listed = [{"name": v.partition("/")[0], "versions": [{"groupVersion": v, "version": v.partition("/")[2]}]} for v in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    found = _ROUTE.match(asked.path)
    if found is None:
        raise Refused(404, "the server could not find the requested resource")
    asked.namespace, asked.plural = found["namespace"], found["plural"]
    asked.name, asked.sub = found["name"] or "", found["sub"] or ""
    asked.group_version = found["core"] or f"{found['group']}/{found['version']}"
    if asked.plural == "selfsubjectaccessreviews":
        return _review(fake, asked)
    if asked.plural == "selfsubjectrulesreviews":
        return {**asked.body, "status": {"resourceRules": fake.rules, "nonResourceRules": [], "incomplete": fake.rules_incomplete}}
    served = KINDS.get(asked.plural, ("", ""))[0]
    if served != asked.group_version or not fake.serves(served):
        raise Refused(404, "the server could not find the requested resource")
    if (asked.verb, asked.resource) in fake.forbidden:
        where = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
        group = asked.group_version.rpartition("/")[0]
        named = f' "{asked.name}"' if asked.name else ""
        kind = asked.plural + (f"/{asked.sub}" if asked.sub else "")
        who = 'User "system:serviceaccount:plumbline:launcher"'
        said = f'{asked.plural}{named} is forbidden: {who} cannot {asked.verb} resource "{kind}" in API group "{group}"{where}'
        raise Refused(403, said, name=asked.name, kind=asked.plural)
    return _sub(fake, asked) if asked.sub else _object(fake, asked)


def _review(fake: FakeKubernetes, asked: Asked) -> Any:
    wanted = asked.body["spec"]["resourceAttributes"]
    group, sub = wanted.get("group") or "", wanted.get("subresource") or ""
    resource = wanted["resource"] + (f".{group}" if group else "") + (f"/{sub}" if sub else "")
    return {**asked.body, "status": {"allowed": (wanted["verb"], resource) not in fake.forbidden}}


def _object(fake: FakeKubernetes, asked: Asked) -> Any:
    store, plural, name, query = fake.store, asked.plural, asked.name, asked.query
    space = "" if plural in CLUSTER_SCOPED else asked.namespace
    if asked.verb == "watch":
        return ""
    if asked.verb == "list":
        return _listed(fake, asked, space)
    if asked.verb == "create":
        return store.create(plural, space or "", asked.body, dry_run=query.get("dryRun") == "All")
    options = {**(asked.body or {}), **query} if asked.method == "DELETE" else {}
    grace = None if options.get("gracePeriodSeconds") is None else int(options["gracePeriodSeconds"])
    told = {"grace": grace, "propagation": options.get("propagationPolicy") or ""}
    if asked.verb == "deletecollection":
        rows = store.list(plural, space, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        for row in rows:
            store.delete(plural, row["metadata"].get("namespace", ""), row["metadata"]["name"], **told)
        return _list_row(plural, rows)
    if asked.verb == "delete":
        uid = (options.get("preconditions") or {}).get("uid") or ""
        return store.delete(plural, space or "", name, uid=uid, **told)
    if asked.verb == "patch":
        if not isinstance(asked.body, dict):
            raise Refused(415, "the body of the request was in an unknown format - only merge patches are understood here")
        return store.patch(plural, space or "", name, asked.body)
    if asked.verb == "update":
        return store.put(plural, {**asked.body, "metadata": {**store.get(plural, space or "", name)["metadata"], **asked.body["metadata"]}})
    with store.lock:
        return json.loads(json.dumps(_quota(fake, store.get(plural, space or "", name))))


def _listed(fake: FakeKubernetes, asked: Asked, space: str | None) -> Any:
    query = asked.query
    rows = fake.store.list(asked.plural, space, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    first, most = int(query.get("continue") or 0), int(query.get("limit") or 0)
    if not most or query.get("resourceVersion") == "0":
        return _list_row(asked.plural, [_quota(fake, row) for row in rows])
    left = len(rows) - first - most
    more = {"continue": str(first + most), "remainingItemCount": left} if left > 0 else {}
    return _list_row(asked.plural, [_quota(fake, row) for row in rows[first : first + most]], **more)


def _list_row(plural: str, rows: list[Any], **metadata: Any) -> Any:
    version, kind = KINDS[plural]
    return {"apiVersion": version, "kind": f"{kind}List", "metadata": {"resourceVersion": "1", **metadata}, "items": rows}


def _quota(fake: FakeKubernetes, row: Any) -> Any:
    if row["kind"] != "ResourceQuota":
        return row
    hard = row["spec"]["hard"]
    used = fake.store.quota_used(row["metadata"]["namespace"], hard)
    return {**row, "status": {"hard": hard, "used": {key: f"{value:g}" for key, value in used.items()}}}


def _sub(fake: FakeKubernetes, asked: Asked) -> Any:
    if (asked.plural, asked.sub, asked.method) == ("serviceaccounts", "token", "POST"):
        fake.store.get(asked.plural, asked.namespace or "", asked.name)
        granted = min(asked.body["spec"]["expirationSeconds"], fake.longest_token_s)
        ends = datetime.now(timezone.utc) + timedelta(seconds=granted)
        return {**asked.body, "metadata": {}, "status": {"token": fake.token, "expirationTimestamp": seconds(ends)}}
    pod = fake.store.get(asked.plural, asked.namespace or "", asked.name)
    if asked.plural == "pods" and asked.sub == "log":
        return _log(fake, asked, pod)
    if asked.plural == "pods" and asked.sub == "eviction" and asked.method == "POST":
        fake.store.delete("pods", asked.namespace or "", asked.name)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    if asked.sub == "status" and asked.method == "GET":
        return pod
    raise not_found(f"{asked.plural}/{asked.sub}", asked.name)


def _log(fake: FakeKubernetes, asked: Asked, pod: Any) -> Any:
    names = [container["name"] for container in pod["spec"]["containers"]]
    container = asked.query.get("container") or names[0]
    if container not in names:
        raise Refused(400, f"container {container} is not valid for pod {asked.name}")
    states = {held["name"]: held["state"] for held in pod["status"].get("containerStatuses", [])}
    state = states.get(container, {"waiting": {"reason": "ContainerCreating"}})
    if "waiting" in state:
        raise Refused(400, f'container "{container}" in pod "{asked.name}" is waiting to start: {state["waiting"]["reason"]}')
    if asked.query.get("follow", "").lower() in ("true", "1"):
        return LogStream(fake, asked)
    return log_text(fake.runs[asked.namespace or "", asked.name].lines, asked.query)


def matches(pattern: str, asked: Asked) -> bool:
    """Whether a request is meant by a pattern such as `GET /api/v1/namespaces/*/pods*` (with its query) or `*`."""
    query = "&".join(f"{key}={value}" for key, value in asked.query.items())
    line = f"{asked.method} {asked.path}"
    return fnmatchcase(line, pattern) or fnmatchcase(f"{line}?{query}", pattern)
