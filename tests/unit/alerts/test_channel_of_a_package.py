"""An alert channel of another package: a declaration, a channel and one entry point, used by the tasks that send alerts and the digest."""

from __future__ import annotations

import importlib
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.installation import install_package
from tests.fakes.trials import CONFIG
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts import ChannelError
from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.declarations import DeclarationError, load
from plumbline.findings.headline import headline
from plumbline.workflows import alert

FILES = {
    "webhook_channel-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: webhook-channel\nVersion: 1\n",
    "webhook_channel-1.dist-info/entry_points.txt": "[plumbline.alert_channels]\nhook = webhook_channel:Webhook\n",
    "webhook_channel/__init__.py": """
from typing import Literal
from plumbline.declarations.alerts import AlertChannelBase

class Webhook(AlertChannelBase):
    kind: Literal["hook"]
    connection: str
    implementation = "webhook_channel.channel:WebhookChannel"
""",
    "webhook_channel/channel.py": """
import json
from urllib.request import Request, urlopen
from airflow.sdk import Connection
from plumbline.alerts import AlertChannel, ChannelError
from plumbline.declarations.urls import sends_in_clear

class WebhookChannel(AlertChannel):
    def __init__(self, declared):
        self.connection = declared.connection

    def send(self, post):
        message = post.message
        url = Connection.get(self.connection).password  # a webhook's URL is its secret
        if sends_in_clear(url):
            raise ChannelError("the webhook's address is plain http; expected https://")
        body = {
            "thread": post.thread_key,
            "post": post.name,
            "severity": message.severity,
            "title": message.title,
            "text": message.text,
            "fields": dict(message.fields),
            "links": [{"address": address, "label": label} for address, label in message.links],
        }
        request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=10) as answer:
            return answer.headers.get("X-Message-Id")
""",
}
ROUTES = """
airflow_url: https://airflow.example.com
channels:
  ops: {kind: hook, connection: ops_webhook}
digest: [ops]
routes:
  - when: {severity: [page]}
    channels: [ops]
"""


class Receiver(BaseHTTPRequestHandler):
    bodies: list[dict[str, Any]]
    status: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if type(self).status == 200:
            self.bodies.append(body)
        self.send_response(type(self).status)
        self.send_header("X-Message-Id", f"m{len(self.bodies)}")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[type[Receiver]]:
    handler = type("Handler", (Receiver,), {"bodies": [], "status": 200})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        handler.url = f"http://127.0.0.1:{server.server_port}/alerts"  # type: ignore[attr-defined]
        yield handler
        server.shutdown()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Any) -> Path:
    install_package(tmp_path, monkeypatch, FILES)
    shutil.copytree(CONFIG, tmp_path / "config")
    (tmp_path / "config" / "alerts.yaml").write_text(ROUTES)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("AIRFLOW_CONN_OPS_WEBHOOK", json.dumps({"conn_type": "generic", "password": receiver.url}))
    return tmp_path / "config"


@pytest.fixture
def archive(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.setattr(alert, "connect", lambda: None)
    finding = replace(FINDING, finding_id="f1")
    record = FindingRecord("f1", "", None, finding.provider, finding.kind, finding.severity, headline(finding), finding.to_dict())
    with open_archive() as opened:
        opened.save_findings([record])
        yield opened


def test_it_receives_the_message_of_a_finding_and_its_changes_once(archive: Archive, receiver: type[Receiver]) -> None:
    assert alert.send_alerts()["posted"] == ["f1"]
    assert alert.send_alerts()["unchanged"] == ["f1"]
    (body,) = receiver.bodies
    assert (body["thread"], body["post"], body["severity"]) == ("f1", "opened", "page")
    assert headline(FINDING) in body["title"] and FINDING.evidence in body["text"]
    assert body["fields"]["Provider"] == FINDING.provider
    assert body["links"][0]["address"] == "https://airflow.example.com/plumbline/findings/f1"
    (incident,) = archive.incidents("f1")
    assert (incident.channel, incident.ts, incident.state) == ("ops", "m1", "open")
    archive.set_finding_state("f1", "resolved", by="ada", why="fixed")
    assert alert.send_alerts()["updated"] == ["f1"]
    assert [body["post"] for body in receiver.bodies] == ["opened", "updated"]


def test_a_failure_is_recorded_and_retried(archive: Archive, receiver: type[Receiver]) -> None:
    receiver.status = 500
    assert alert.send_alerts()["undelivered"] == ["f1"]
    assert archive.incidents("f1")[0].ts == ""
    receiver.status = 200
    assert alert.send_alerts()["posted"] == ["f1"] and len(receiver.bodies) == 1


def test_it_receives_the_digest(archive: Archive, receiver: type[Receiver]) -> None:
    receiver.status = 500
    with pytest.raises(ChannelError):
        alert.send_digest("2026-10")
    receiver.status = 200
    assert [alert.send_digest("2026-10"), alert.send_digest("2026-10")] == ["posted", "unchanged"]
    (body,) = receiver.bodies
    assert (body["thread"], body["post"]) == ("2026-10", "opened") and "2026-10" in body["title"]
    assert [entry.what for entry in archive.audit("digest/2026-10/ops")] == ["digest_begun", "digest_begun", "digest_sent"]


def test_a_channel_that_is_declared_no_more_is_given_up(archive: Archive, config: Path, receiver: type[Receiver]) -> None:
    alert.send_alerts()
    (config / "alerts.yaml").write_text("remind_every: 7d\n")
    assert alert.send_alerts()["log_only"] == ["f1"]
    assert [incident.state for incident in archive.incidents("f1")] == ["moved"]


@pytest.mark.parametrize(
    ("old", "new", "field", "known"),
    [
        ("kind: hook", "kind: web", "channels.ops.kind", "slack, notifier, webhook, hook"),
        ("channels: [ops]", "channels: [oops]", "routes[0].channels[0]", "ops"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(config: Path, old: str, new: str, field: str, known: str) -> None:
    file = config / "alerts.yaml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(DeclarationError) as refused:
        load(config)
    (problem,) = refused.value.problems
    assert (Path(problem.file).name, problem.field) == ("alerts.yaml", field) and problem.message.endswith(known)


def test_a_channel_that_cannot_be_made_has_an_undelivered_incident(
    archive: Archive, receiver: type[Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = importlib.import_module("webhook_channel.channel").WebhookChannel
    made = webhook.__init__

    def broken(self: Any, declared: Any) -> None:
        raise RuntimeError("no token")

    monkeypatch.setattr(webhook, "__init__", broken)
    assert alert.send_alerts()["undelivered"] == ["f1"]
    assert [(incident.channel, incident.state) for incident in archive.incidents("f1")] == [("ops", "undelivered")]
    monkeypatch.setattr(webhook, "__init__", made)
    assert alert.send_alerts()["posted"] == ["f1"] and len(receiver.bodies) == 1
