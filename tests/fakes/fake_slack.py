"""A Slack Web API that listens on loopback: it keeps messages, threads and files, and refuses what the real one refuses.

    with FakeSlack() as slack:
        client = WebClient(token=slack.token, base_url=slack.url)
        slack.fail_next(Fault(status=429, retry_after=1))

Every request is kept in `calls`, also those that failed. Times go on by a second a message, from a fixed one.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.http_fake import HttpFake
from tests.fakes.slack_blocks import Refused, checked
from tests.fakes.slack_files import Files, SharedFile

CHANNEL = "C0123456789"


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

    def __post_init__(self) -> None:
        if self.status == 429 and self.retry_after is None:
            raise ValueError("Slack never answers 429 without Retry-After: give retry_after in seconds")


@dataclass(frozen=True)
class Call:
    """One request: `answer` is what it got, None if the connection was cut. An upload's method is `upload`."""

    method: str
    payload: dict[str, Any]
    answer: dict[str, Any] | None


@dataclass
class FakeSlack(HttpFake):
    """`channels` exist; the bot is in all of them but those of `not_in`; those in `archived` can be read only."""

    token: str = "xoxb-fake"
    channels: set[str] = field(default_factory=lambda: {CHANNEL})
    archived: set[str] = field(default_factory=set)
    not_in: set[str] = field(default_factory=set)
    revoked: bool = False
    may_read_history: bool = True
    may_write_files: bool = True
    calls: list[Call] = field(default_factory=list)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._faults: deque[Fault] = deque()
        self._lock = threading.Lock()
        self._clock = 1_800_000_000
        self._files = Files()
        self._methods: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "files.getUploadURLExternal": self._upload_url,
            "files.completeUploadExternal": self._complete_upload,
        }

    def __enter__(self) -> FakeSlack:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake._handle(self)

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                """Quiet: `calls` is the log."""

        self._listen(Handler)
        return self

    @property
    def url(self) -> str:
        return f"{self.origin}/api/"

    def fail_next(self, *faults: Fault) -> None:
        """The next calls, one after the other, go wrong like this."""
        self._faults.extend(faults)

    def methods(self) -> list[str]:
        """The methods called so far, in order."""
        return [call.method for call in self.calls]

    def shown(self, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """The messages that a person would see in the channel, oldest first; replies are in their threads."""
        return [m for m in self.messages.get(channel, []) if m.get("thread_ts") in (None, m["ts"])]

    def thread(self, ts: str, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """The replies to a message, oldest first."""
        return [m for m in self.messages.get(channel, []) if m.get("thread_ts") == ts and m["ts"] != ts]

    def files(self) -> list[SharedFile]:
        """The files that were shared, in order."""
        return self._files.shared

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        url = urlsplit(request.path)
        payload: dict[str, Any] = dict(parse_qsl(url.query))
        upload = url.path.startswith("/upload/")
        if upload:
            payload |= {"ticket": url.path.rsplit("/", 1)[-1], "bytes": len(body)}
        elif "json" in request.headers.get("content-type", ""):
            payload |= json.loads(body or b"{}")
        else:
            payload |= dict(parse_qsl(body.decode()))
        method = "upload" if upload else url.path.removeprefix("/api/")
        with self._lock:
            fault = self._faults.popleft() if self._faults else Fault()
            broken = bool(fault.cut or fault.error or fault.status != 200)
            status, answer = 200, {"ok": False, "error": fault.error or "ratelimited"}
            if not broken or fault.after_work:
                if upload:
                    status, done = (200, {"ok": True}) if self._files.take(payload["ticket"], body) else (400, {"ok": False})
                else:
                    done = self._answer(method, payload, request.headers.get("authorization", ""))
                answer = answer if broken else done
            self.calls.append(Call(method, payload, None if fault.cut else answer))
        if fault.cut:
            request.close_connection = True
            return
        _send(request, fault if broken else Fault(status=status), answer)

    def _answer(self, method: str, payload: dict[str, Any], authorization: str) -> dict[str, Any]:
        try:
            if authorization != f"Bearer {self.token}":
                raise Refused("invalid_auth" if authorization else "not_authed")
            if self.revoked:
                raise Refused("token_revoked")
            if method not in self._methods:
                raise Refused("unknown_method")
            return {"ok": True, **self._methods[method](payload)}
        except Refused as refused:
            return refused.answer

    def _auth_test(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"url": "https://fake.slack.com/", "team": "Fake", "user": "plumbline", "team_id": "T0", "user_id": "U0", "bot_id": "B0"}

    def _channel(self, payload: dict[str, Any], *, write: bool, name: str = "channel") -> str:
        channel = str(payload.get(name, ""))
        if channel not in self.channels:
            raise Refused("channel_not_found")
        if channel in self.not_in:
            raise Refused("not_in_channel")
        if write and channel in self.archived:
            raise Refused("is_archived")
        return channel

    def _find(self, channel: str, ts: str, error: str) -> dict[str, Any]:
        found = next((m for m in self.messages.get(channel, []) if m["ts"] == ts), None)
        if found is None:
            raise Refused(error)
        return found

    def _post(self, payload: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(payload, write=True)
        message = self._say(channel, payload.get("thread_ts"), checked(payload))
        if payload.get("thread_ts") and str(payload.get("reply_broadcast", "")).lower() in ("1", "true"):
            message["subtype"] = "thread_broadcast"
        return {"channel": channel, "ts": message["ts"], "message": message}

    def _say(self, channel: str, parent_ts: str | None, parts: dict[str, Any]) -> dict[str, Any]:
        """A new message, which starts or goes on a thread if it names a parent."""
        self._clock += 1
        message: dict[str, Any] = {"type": "message", "user": "U0", "bot_id": "B0", "ts": f"{self._clock}.000100", **parts}
        if parent_ts:
            parent = self._find(channel, parent_ts, "thread_not_found")
            # A reply's own ts is no thread: Slack hangs the answer where nobody sees it.
            if parent.get("thread_ts", parent["ts"]) != parent["ts"]:
                raise Refused("cannot_reply_to_message")
            parent |= {"thread_ts": parent["ts"], "reply_count": parent.get("reply_count", 0) + 1, "latest_reply": message["ts"]}
            message["thread_ts"] = parent["ts"]
        self.messages.setdefault(channel, []).append(message)
        return message

    def _update(self, payload: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(payload, write=True)
        found = self._find(channel, str(payload.get("ts")), "message_not_found")
        parts = checked(payload, update=True)
        # Without blocks a new text takes the old blocks' place; metadata stays unless new ones are given.
        found |= {"blocks": [], **parts}
        return {"channel": channel, "ts": found["ts"], "text": found["text"], "message": found}

    def _history(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._may(self.may_read_history, "channels:history")
        channel = self._channel(payload, write=False)
        in_channel = [m for m in self.messages.get(channel, []) if m in self.shown(channel) or m.get("subtype") == "thread_broadcast"]
        return _page([m for m in reversed(in_channel) if float(m["ts"]) > float(payload.get("oldest", 0))], payload)

    def _replies(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._may(self.may_read_history, "channels:history")
        channel = self._channel(payload, write=False)
        one = self._find(channel, str(payload.get("ts")), "thread_not_found")
        parent = self._find(channel, one.get("thread_ts", one["ts"]), "thread_not_found")
        return _page([parent, *self.thread(parent["ts"], channel)], payload)

    def _upload_url(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._may(self.may_write_files, "files:write")
        ticket = self._files.ticket(payload)
        return {"upload_url": f"{self.origin}/upload/v1/{ticket}", "file_id": ticket}

    def _complete_upload(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._may(self.may_write_files, "files:write")
        made = self._files.complete(payload)
        if payload.get("channel_id"):
            channel = self._channel(payload, write=True, name="channel_id")
            parts = {"text": payload.get("initial_comment") or "", "files": [f.as_seen() for f in made]}
            self._say(channel, payload.get("thread_ts"), parts)
        self._files.share(made)
        return {"files": [{"id": f.file_id, "title": f.title} for f in made]}

    @staticmethod
    def _may(allowed: bool, scope: str) -> None:
        if not allowed:
            raise Refused("missing_scope", needed=scope, provided="chat:write")


def _page(messages: list[dict[str, Any]], payload: dict[str, Any]) -> dict[str, Any]:
    start, limit = int(payload.get("cursor") or 0), min(int(payload.get("limit", 100)), 999)
    page = messages[start : start + limit]
    more = start + limit < len(messages)
    if str(payload.get("include_all_metadata", "")).lower() not in ("1", "true"):
        page = [{k: v for k, v in m.items() if k != "metadata"} for m in page]
    return {"messages": page, "has_more": more, "response_metadata": {"next_cursor": str(start + limit) if more else ""}}


def _send(request: BaseHTTPRequestHandler, fault: Fault, answer: dict[str, Any]) -> None:
    gateway = fault.status >= 500
    data = b"<html>gateway</html>" if gateway else json.dumps(answer).encode()
    request.send_response(fault.status)
    request.send_header("content-type", "text/html" if gateway else "application/json; charset=utf-8")
    request.send_header("content-length", str(len(data)))
    if fault.retry_after is not None:
        request.send_header("Retry-After", str(fault.retry_after))
    request.end_headers()
    request.wfile.write(data)
