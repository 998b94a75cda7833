"""A Slack Web API that listens on loopback: it keeps messages, and refuses what the real one refuses.

    with FakeSlack() as slack:
        client = WebClient(token=slack.token, base_url=slack.url)
        slack.fail_next(Fault(status=429, retry_after=1))

Every request is kept in `calls`, also those that failed.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Fault:
    """What goes wrong with the next call: an HTTP status, an error word (`internal_error`), or a connection that is cut.

    `after_work` does the work first, as when the answer is lost on its way back.
    """

    status: int = 200
    error: str | None = None
    retry_after: int | None = None
    cut: bool = False
    after_work: bool = False


@dataclass(frozen=True)
class Call:
    """One request: `answer` is what it got, None if the connection was cut."""

    method: str
    payload: dict[str, Any]
    answer: dict[str, Any] | None


class Refused(Exception):
    def __init__(self, error: str, *details: str) -> None:
        super().__init__(error)
        self.answer: dict[str, Any] = {
            "ok": False,
            "error": error,
            **({"response_metadata": {"messages": list(details)}} if details else {}),
        }


@dataclass
class FakeSlack:
    token: str = "xoxb-fake"
    channels: set[str] = field(default_factory=lambda: {"C0123456789"})
    archived: set[str] = field(default_factory=set)
    revoked: bool = False
    may_read_history: bool = True
    calls: list[Call] = field(default_factory=list)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._faults: deque[Fault] = deque()
        self._lock = threading.Lock()
        self._clock = 1_800_000_000.0

    def __enter__(self) -> FakeSlack:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake._handle(self)

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                """Quiet: `calls` is the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/api/"

    def fail_next(self, *faults: Fault) -> None:
        """The next calls, one after the other, go wrong like this."""
        self._faults.extend(faults)

    def methods(self) -> list[str]:
        """The methods called so far, in order."""
        return [call.method for call in self.calls]

    def shown(self, channel: str = "C0123456789") -> list[dict[str, Any]]:
        """The messages that a person would see."""
        return self.messages.get(channel, [])

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0))).decode()
        url = urlsplit(request.path)
        payload: dict[str, Any] = dict(parse_qsl(url.query))
        if "json" in request.headers.get("content-type", ""):
            payload |= json.loads(body or "{}")
        else:
            payload |= dict(parse_qsl(body))
        method = url.path.removeprefix("/api/")
        with self._lock:
            fault = self._faults.popleft() if self._faults else Fault()
            answer = self._answer(method, payload, request.headers.get("authorization", ""), fault)
            if fault.error or fault.status != 200:
                answer = {"ok": False, "error": fault.error or "ratelimited"}
            self.calls.append(Call(method, payload, None if fault.cut else answer))
        if fault.cut:
            request.close_connection = True
            return
        data = b"<html>gateway</html>" if fault.status >= 500 else json.dumps(answer).encode()
        request.send_response(fault.status)
        request.send_header("content-type", "text/html" if fault.status >= 500 else "application/json; charset=utf-8")
        request.send_header("content-length", str(len(data)))
        if fault.retry_after is not None:
            request.send_header("Retry-After", str(fault.retry_after))
        request.end_headers()
        request.wfile.write(data)

    def _answer(self, method: str, payload: dict[str, Any], authorization: str, fault: Fault) -> dict[str, Any]:
        if (fault.cut or fault.error or fault.status != 200) and not fault.after_work:
            return {"ok": False}
        handlers = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._history,
        }
        try:
            if authorization != f"Bearer {self.token}":
                raise Refused("invalid_auth" if authorization else "not_authed")
            if self.revoked:
                raise Refused("token_revoked")
            if method not in handlers:
                raise Refused("unknown_method")
            return handlers[method](payload)
        except Refused as refused:
            return refused.answer

    def _auth_test(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "url": "https://fake.slack.com/", "team": "Fake", "user": "plumbline", "team_id": "T0", "user_id": "U0"}

    def _channel(self, payload: dict[str, Any]) -> str:
        channel = str(payload.get("channel", ""))
        if channel not in self.channels:
            raise Refused("channel_not_found")
        return channel

    def _post(self, payload: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(payload)
        if channel in self.archived:
            raise Refused("is_archived")
        message = _checked(payload)
        self._clock += 1
        message["ts"] = f"{self._clock:.6f}"
        self.messages.setdefault(channel, []).append(message)
        return {"ok": True, "channel": channel, "ts": message["ts"], "message": message}

    def _update(self, payload: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(payload)
        found = next((m for m in self.shown(channel) if m["ts"] == payload.get("ts")), None)
        if found is None:
            raise Refused("message_not_found")
        found.update(_checked(payload))
        return {"ok": True, "channel": channel, "ts": found["ts"], "text": found["text"]}

    def _history(self, payload: dict[str, Any]) -> dict[str, Any]:
        if not self.may_read_history:
            raise Refused("missing_scope")
        channel = self._channel(payload)
        newest_first = [m for m in reversed(self.shown(channel)) if float(m["ts"]) > float(payload.get("oldest", 0))]
        start, limit = int(payload.get("cursor") or 0), int(payload.get("limit", 100))
        page = newest_first[start : start + limit]
        more = start + limit < len(newest_first)
        if str(payload.get("include_all_metadata", "")).lower() not in ("1", "true"):
            page = [{k: v for k, v in m.items() if k != "metadata"} for m in page]
        return {"ok": True, "messages": page, "has_more": more, "response_metadata": {"next_cursor": str(start + limit) if more else ""}}


def _checked(payload: dict[str, Any]) -> dict[str, Any]:
    """The message of a payload; Refused like the real API refuses it."""
    text, blocks, metadata = payload.get("text", ""), payload.get("blocks", []), payload.get("metadata")
    blocks = json.loads(blocks) if isinstance(blocks, str) else blocks
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    if not text and not blocks:
        raise Refused("no_text")
    if len(text) > 40_000:
        raise Refused("msg_too_long")
    problems = [f"{problem} [json-pointer:/blocks/{i}]" for i, block in enumerate(blocks) for problem in _problems(block)]
    if len(blocks) > 50:
        problems.append("no more than 50 items allowed [json-pointer:/blocks]")
    if problems:
        raise Refused("invalid_blocks", *problems)
    if metadata is not None and not (isinstance(metadata.get("event_type"), str) and isinstance(metadata.get("event_payload"), dict)):
        raise Refused("invalid_metadata_format")
    return {"text": text, "blocks": blocks, **({"metadata": metadata} if metadata else {})}


_FIELDS = {
    "header": {"text"},
    "section": {"text", "fields", "accessory", "expand"},
    "context": {"elements"},
    "divider": set(),
    "image": {"image_url", "slack_file", "alt_text", "title"},
    "actions": {"elements"},
}


def _problems(block: dict[str, Any]) -> list[str]:
    kind = block.get("type")
    if kind not in _FIELDS:
        return [f"unsupported type: {kind}"]
    found = [f"unknown field: {name}" for name in block.keys() - _FIELDS[kind] - {"type", "block_id"}]
    if kind == "header":
        found += _text(block.get("text"), 150, ("plain_text",))
    if kind == "section":
        if not block.get("text") and not block.get("fields"):
            found.append("must provide text or fields")
        found += _text(block["text"], 3000) if block.get("text") else []
        fields = block.get("fields", [])
        found += ["no more than 10 items allowed"] if len(fields) > 10 else []
        found += [problem for text in fields for problem in _text(text, 2000)]
    if kind in ("context", "actions"):
        elements = block.get("elements", [])
        found += [] if 1 <= len(elements) <= (10 if kind == "context" else 25) else ["wrong number of elements"]
        if kind == "context":
            found += [problem for e in elements if e.get("type") != "image" for problem in _text(e, 3000)]
    if kind == "image" and not block.get("alt_text"):
        found.append("missing required field: alt_text")
    return found


def _text(text: Any, limit: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> list[str]:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        return [f"expected a text object of type {' or '.join(kinds)}"]
    allowed = {"plain_text": {"emoji"}, "mrkdwn": {"verbatim"}}[text["type"]] | {"type", "text"}
    found = [f"unknown field: {name}" for name in text.keys() - allowed]
    length = len(text.get("text", ""))
    if not 1 <= length <= limit:
        found.append(f"must be between 1 and {limit} characters, is {length}")
    return found
