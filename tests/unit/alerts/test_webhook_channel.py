"""The signed webhook against a strict receiver: the life of a finding, a kill after each call, and secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import CONFIG
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts.channel import Post
from plumbline.alerts.webhook_channel import WebhookSender
from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.alert_channels import WebhookChannel
from plumbline.findings.headline import headline
from plumbline.workflows import alert

SECRET = b"a secret of the receiver's"
TOLERANCE_S = 300


class Receiver(BaseHTTPRequestHandler):
    """As standardwebhooks.com says: an id, a time, a signature of both and the body; a repeated id is taken once."""

    secret: bytes
    status: int
    taken: dict[str, dict[str, Any]]
    calls: int

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        expected = base64.b64encode(hmac.new(self.secret, f"{name}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
        versions = [each.partition(",") for each in self.headers["webhook-signature"].split(" ")]
        fits = any(v == "v1" and hmac.compare_digest(given, expected) for v, _, given in versions)
        fresh = abs(time.time() - int(at)) < TOLERANCE_S
        status = type(self).status if fits and fresh else 401
        type(self).calls += 1
        if status == 200:
            self.taken.setdefault(name, json.loads(body))
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    handler = type("Handler", (Receiver,), {"taken": {}, "status": 200, "secret": SECRET, "calls": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shutil.copytree(CONFIG, tmp_path / "config")
        url = f"http://127.0.0.1:{server.server_port}/alerts"
        text = f"channels:\n  ops: {{kind: webhook, url: '{url}', connection: ops}}\ndigest: [ops]\nroutes:\n  - channels: [ops]\n"
        (tmp_path / "config" / "alerts.yaml").write_text(text)
        monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
        monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
        monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
        monkeypatch.setattr(alert, "connect", lambda: None)
        connection(monkeypatch, SECRET.decode().replace(" ", "_"))
        handler.secret = SECRET.replace(b" ", b"_")  # type: ignore[attr-defined]
        yield handler
        server.shutdown()


def connection(monkeypatch: pytest.MonkeyPatch, password: str | None, **extra: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps({"conn_type": "generic", "password": password, "extra": extra}))


@pytest.fixture
def archive(receiver: Any) -> Iterator[Archive]:
    finding = replace(FINDING, finding_id="f1")
    record = FindingRecord("f1", "", None, finding.provider, finding.kind, finding.severity, headline(finding), finding.to_dict())
    with open_archive() as opened:
        opened.save_findings([record])
        yield opened


class Killed(BaseException):
    """The process ends after a call, before its result is recorded."""


@pytest.mark.fault("a run is killed after a webhook's call", ends="the same message again, with its id", keeps="one message each")
@pytest.mark.parametrize("killed_at", [None, 0, 1, 2])
def test_the_life_of_a_finding(archive: Archive, receiver: Any, monkeypatch: pytest.MonkeyPatch, killed_at: int | None) -> None:
    sending = WebhookSender.send

    def killed(self: WebhookSender, post: Post) -> str:
        sending(self, post)
        raise Killed

    for step, state in enumerate(("open", "acknowledged", "resolved")):
        if step:
            archive.set_finding_state("f1", state, by="ada", why="seen")
        if step == killed_at:
            with monkeypatch.context() as patch, pytest.raises(Killed):
                patch.setattr(WebhookSender, "send", killed)
                alert.send_alerts()
        alert.send_alerts()
        alert.send_alerts()
    bodies = list(receiver.taken.values())
    assert [(body["event"], body["state"]) for body in bodies] == [("opened", "open"), ("updated", "acknowledged"), ("updated", "resolved")]
    assert {body["key"] for body in bodies} == {"plumbline-f1"} and receiver.calls == (3 if killed_at is None else 4)
    assert (bodies[0]["finding"], bodies[0]["provider"], bodies[0]["severity"]) == ("f1", FINDING.provider, "page")
    assert headline(FINDING) in bodies[0]["title"] and FINDING.evidence in bodies[0]["text"]


@pytest.mark.fault("a webhook refuses, redirects, or has another secret", ends="undelivered, until the next run", keeps="the message")
@pytest.mark.parametrize("status", [401, 302, 500])
def test_a_refused_message_is_sent_again(archive: Archive, receiver: Any, status: int) -> None:
    receiver.status = status
    assert alert.send_alerts()["undelivered"] == ["f1"]
    assert receiver.calls == 1, "it goes to the declared address alone"
    receiver.status = 200
    assert alert.send_alerts()["posted"] == ["f1"] and len(receiver.taken) == 1


def test_a_secret_is_replaced_with_an_overlap(archive: Archive, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    new = b"\x00\xffsixteen bytes.."
    connection(monkeypatch, f"whsec_{base64.b64encode(new).decode()} {receiver.secret.decode()}")
    alert.send_alerts()
    receiver.secret = new
    archive.set_finding_state("f1", "resolved", by="ada", why="fixed")
    alert.send_alerts()
    assert len(receiver.taken) == 2


def test_it_takes_the_digest(archive: Archive, receiver: Any) -> None:
    assert [alert.send_digest("2026-10"), alert.send_digest("2026-10")] == ["posted", "unchanged"]
    (body,) = receiver.taken.values()
    assert (body["digest"], body["finding"], body["state"]) == ("2026-10", None, "")


@pytest.mark.parametrize(
    ("password", "extra", "url", "expected"),
    [
        (None, {}, "https://a.example", "has no password; expected the secret"),
        ("short", {}, "https://a.example", "expected 16 characters or more, or whsec_ and base64"),
        ("whsec_%%%%", {}, "https://a.example", "expected 16 characters or more, or whsec_ and base64"),
        ("a-secret-of-16-chars", {}, None, "no https:// URL; expected `url` in alerts.yaml or in the connection's extra"),
        ("a-secret-of-16-chars", {"url": "http://a.example/x"}, None, "no https:// URL"),
    ],
)
def test_a_connection_that_cannot_sign_is_named(
    monkeypatch: pytest.MonkeyPatch, password: str | None, extra: dict[str, str], url: str | None, expected: str
) -> None:
    connection(monkeypatch, password, **extra)
    with pytest.raises(ValueError, match=expected) as refused:
        WebhookSender(WebhookChannel(kind="webhook", url=url, connection="ops"))
    assert "a-secret" not in str(refused.value) and "ops" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://a.example/x", "is plain http"), ("https://u:p@a.example/x", "has a user or password"), ("ftp://a", "url")],
)
def test_a_bad_url_is_refused(receiver: Any, tmp_path: Path, url: str, expected: str) -> None:
    (tmp_path / "config" / "alerts.yaml").write_text(f"channels:\n  ops: {{kind: webhook, url: '{url}', connection: ops}}\n")
    with pytest.raises(DeclarationError, match=expected) as refused:
        load(tmp_path / "config")
    assert refused.value.problems[0].field.startswith("channels.ops")
