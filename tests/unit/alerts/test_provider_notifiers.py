"""Notifiers of Airflow's own providers as alert channels, against strict fakes of their services; skipped where a provider is not installed."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.fakes.trials import CONFIG
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts.channel import Post
from plumbline.alerts.notifier_channel import NotifierSender
from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.findings.headline import headline
from plumbline.workflows import alert

REPOSITORY = Path(__file__).resolve().parents[3]


def declared(service: str) -> str:
    """The declaration of a service as docs/alerts.md shows it."""
    page = (REPOSITORY / "docs" / "alerts.md").read_text()
    text = next(block for block in page.split("```yaml\n")[1:] if f"{service}Notifier" in block)
    return text.partition("```")[0]


class Service(BaseHTTPRequestHandler):
    """`alerts`: key → state; an alert of a key is one, and what the service does not know is an error."""

    alerts: dict[str, str]
    calls: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        type(self).calls += 1
        status = self.taken(urlsplit(self.path), body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        taken = {"status": "success", "result": "taken", "requestId": "1", "took": 0.1, "dedup_key": body.get("dedup_key")}
        self.wfile.write(json.dumps(taken).encode())

    def taken(self, address: Any, body: dict[str, Any]) -> int:
        raise NotImplementedError

    def log_message(self, *args: object) -> None:
        pass


class PagerDuty(Service):
    """Events API v2: required fields, the four severities, at most 1024 characters of a summary."""

    def taken(self, address: Any, body: dict[str, Any]) -> int:
        payload, after = (
            body["payload"],
            {"trigger": "open", "acknowledge": "acknowledged", "resolve": "resolved"}.get(body["event_action"]),
        )
        fits = payload["severity"] in ("critical", "error", "warning", "info") and payload["source"] and 0 < len(payload["summary"]) <= 1024
        if not (fits and after and body["routing_key"] == "the-key" and body["dedup_key"]):
            return 400
        self.alerts[body["dedup_key"]] = after
        return 202


class Opsgenie(Service):
    """Alert API v2: create with an alias is one alert while it is open; close by alias. At most 130 characters of a message."""

    def taken(self, address: Any, body: dict[str, Any]) -> int:
        if self.headers["Authorization"] != "GenieKey the-key":
            return 401
        if address.path == "/v2/alerts":
            if not 0 < len(body["message"]) <= 130 or body["priority"] not in ("P1", "P2", "P3", "P4", "P5"):
                return 422
            self.alerts[body["alias"]] = "open"
            return 202
        alias = address.path.split("/")[3]
        if not address.path.endswith("/close") or parse_qs(address.query) != {"identifierType": ["alias"]} or alias not in self.alerts:
            return 404
        self.alerts[alias] = "resolved"
        return 202


@pytest.fixture(params=["Pagerduty", "Opsgenie"])
def service(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    name = request.param
    pytest.importorskip(
        f"airflow.providers.{name.lower()}.notifications.{name.lower()}", reason=f"apache-airflow-providers-{name.lower()} is not installed"
    )
    handler = type("Handler", ({"Pagerduty": PagerDuty, "Opsgenie": Opsgenie}[name],), {"alerts": {}, "calls": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        if name == "Pagerduty":
            # Its client takes no address of plain http.
            client = pytest.importorskip("pagerduty").EventsApiV2Client
            sending = client.send

            def send(self: Any, asked: Any, **options: Any) -> Any:
                asked.url = type(asked.url)(str(asked.url).replace("https://events.pagerduty.com", address))
                return sending(self, asked, **options)

            monkeypatch.setattr(client, "send", send)
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": name.lower(), "password": "the-key", "host": address}))
        shutil.copytree(CONFIG, tmp_path / "config")
        (tmp_path / "config" / "alerts.yaml").write_text(declared(name))
        monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
        monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
        monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
        monkeypatch.setattr(alert, "connect", lambda: None)
        yield handler
        server.shutdown()


@pytest.fixture
def archive(service: Any) -> Iterator[Archive]:
    finding = replace(FINDING, finding_id="f1")
    record = FindingRecord("f1", "", None, finding.provider, finding.kind, finding.severity, headline(finding), finding.to_dict())
    with open_archive() as opened:
        opened.save_findings([record])
        yield opened


class Killed(BaseException):
    """The process ends after a call, before its result is recorded."""


@pytest.mark.parametrize("killed_at", [None, 0, 1, 2])
def test_the_life_of_a_finding_is_one_alert(archive: Archive, service: Any, monkeypatch: pytest.MonkeyPatch, killed_at: int | None) -> None:
    sending = NotifierSender.send

    def killed(self: NotifierSender, post: Post) -> str:
        sending(self, post)
        raise Killed

    for step, state in enumerate(("open", "acknowledged", "resolved")):
        if step:
            archive.set_finding_state("f1", state, by="ada", why="seen")
        if step == killed_at:
            with monkeypatch.context() as patch, pytest.raises(Killed):
                patch.setattr(NotifierSender, "send", killed)
                alert.send_alerts()
        done = alert.send_alerts()
        assert done["undelivered"] == []
        alert.send_alerts()
        assert len(service.alerts) == 1 and service.alerts["plumbline-f1"] != ("resolved" if step < 2 else "open")
    assert service.alerts == {"plumbline-f1": "resolved"} and service.calls == (3 if killed_at is None else 4)
