"""A notifier of Airflow as an alert channel: the life of a finding in a service that knows it by its key and in one that does not, a kill after each
call, and declarations that are refused."""

from __future__ import annotations

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

from plumbline.alerts.channel import OPENED, UPDATED, ChannelError, Post
from plumbline.alerts.message import Message
from plumbline.alerts.notifier_channel import NotifierSender
from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.alert_channels import NotifierChannel
from plumbline.findings.headline import headline
from plumbline.workflows import alert

FILES = {
    "team_alerts-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: team-alerts\nVersion: 1\n",
    "team_alerts/__init__.py": "",
    "team_alerts/services.py": """
import json
from urllib.request import Request, urlopen
from airflow.sdk import BaseNotifier

class PagerNotifier(BaseNotifier):
    template_fields = ("summary",)

    def __init__(self, *, summary, level, action, dedup_key, conn_id, details=None):
        super().__init__()
        self.summary, self.sent = summary, {"summary": summary, "level": level, "action": action, "dedup_key": dedup_key, "details": details}
        self.conn_id = conn_id

    def notify(self, context):
        from airflow.sdk import Connection
        url = Connection.get(self.conn_id).extra_dejson["url"]
        with urlopen(Request(url, json.dumps(self.sent).encode()), timeout=10) as answer:
            answer.read()

class NotANotifier:
    pass

class LazyNotifier(BaseNotifier):
    pass
""",
}
PAGER = """
channels:
  pager:
    kind: notifier
    class: team_alerts.services.PagerNotifier
    updates: {updates}
    arguments:
      summary: "{{title}}"
      level: "{{level}}"
      action: "{{action}}"
      dedup_key: "{{key}}"
      conn_id: pager
      details: {{"{{state}}": ["{{event}}", "{{post}}", "{{provider}}", 7]}}
routes:
  - channels: [pager]
"""


class Pager(BaseHTTPRequestHandler):
    """Strict: what it does not know is an error; an event of a key changes the one incident of that key."""

    incidents: dict[str, str]
    events: list[dict[str, Any]]

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fits = set(event) == {"summary", "level", "action", "dedup_key", "details"} and event["level"] in ("info", "warning", "critical")
        after = {"trigger": "open", "acknowledge": "acknowledged", "resolve": "resolved"}.get(event["action"])
        known = event["dedup_key"] in self.incidents or event["action"] == "trigger"
        if fits and after and known and event["summary"]:
            self.incidents[event["dedup_key"]] = after
            self.events.append(event)
        self.send_response(202 if fits and after and known else 400)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Pager]]:
    handler = type("Handler", (Pager,), {"incidents": {}, "events": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setenv("AIRFLOW_CONN_PAGER", json.dumps({"conn_type": "generic", "extra": {"url": url}}))
        yield handler
        server.shutdown()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install_package(tmp_path, monkeypatch, FILES)
    shutil.copytree(CONFIG, tmp_path / "config")
    (tmp_path / "config" / "alerts.yaml").write_text(PAGER.format(updates="true"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def archive(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.setattr(alert, "connect", lambda: None)
    finding = (
        replace(FINDING, finding_id="f1", headline_words="") if hasattr(FINDING, "headline_words") else replace(FINDING, finding_id="f1")
    )
    record = FindingRecord("f1", "", None, finding.provider, finding.kind, finding.severity, headline(finding), finding.to_dict())
    with open_archive() as opened:
        opened.save_findings([record])
        yield opened


class Killed(BaseException):
    """The process ends after a call, before its result is recorded."""


def live(archive: Archive, step: int) -> None:
    """The life of a finding: it opens, a person takes it, it is resolved."""
    if step == 1:
        archive.set_finding_state("f1", "acknowledged", by="ada", why="on it")
    if step == 2:
        archive.set_finding_state("f1", "resolved", by="ada", why="fixed")


def test_the_life_of_a_finding_is_one_incident(archive: Archive, pager: type[Pager]) -> None:
    for step in range(3):
        live(archive, step)
        alert.send_alerts()
        alert.send_alerts()
    assert pager.incidents == {"plumbline-f1": "resolved"}
    assert [event["action"] for event in pager.events] == ["trigger", "acknowledge", "resolve"]
    first = pager.events[0]
    assert headline(FINDING) in first["summary"] and first["level"] == "critical"
    assert first["details"] == {"{state}": ["opened", "f1-opened", FINDING.provider, 7]}, "a name is no text that values go into"


def test_a_service_without_keys_hears_the_beginning_and_the_end_alone(archive: Archive, pager: type[Pager], config: Path) -> None:
    (config / "alerts.yaml").write_text(PAGER.format(updates="false"))
    for step in range(3):
        live(archive, step)
        alert.send_alerts()
    assert [event["action"] for event in pager.events] == ["trigger", "resolve"]


@pytest.mark.fault("a run is killed after a notifier's call", ends="the same message again, by its key", keeps="one incident")
@pytest.mark.parametrize("killed_at", [0, 1, 2])
def test_killed_after_each_call_it_is_still_one_incident(
    archive: Archive, pager: type[Pager], monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    sending = NotifierSender.send

    def killed(self: NotifierSender, post: Post) -> str:
        sending(self, post)
        raise Killed

    for step in range(3):
        live(archive, step)
        if step == killed_at:
            with monkeypatch.context() as patch, pytest.raises(Killed):
                patch.setattr(NotifierSender, "send", killed)
                alert.send_alerts()
        alert.send_alerts()
        alert.send_alerts()
    assert pager.incidents == {"plumbline-f1": "resolved"}
    posts = [event["details"]["{state}"][1] for event in pager.events]
    assert len(posts) == 4 and len(set(posts)) == 3, "the repeated message is known by its name"


@pytest.mark.fault(
    "a notifier's service refuses a message, or its class is not there", ends="undelivered, until the next run", keeps="the message"
)
def test_what_cannot_be_sent_is_retried(archive: Archive, pager: type[Pager], config: Path) -> None:
    file = config / "alerts.yaml"
    for broken in (
        ("services.PagerNotifier", "gone.PagerNotifier"),
        ("services.PagerNotifier", "services.LazyNotifier"),
        ('"{level}"', "loud"),
    ):
        file.write_text(PAGER.format(updates="true").replace(*broken))
        assert alert.send_alerts()["undelivered"] == ["f1"]
    assert pager.events == []
    file.write_text(PAGER.format(updates="true"))
    alert.send_alerts()
    assert pager.incidents == {"plumbline-f1": "open"}


def declared(**changed: Any) -> NotifierChannel:
    known = {"kind": "notifier", "class": "team_alerts.services.PagerNotifier", "arguments": {"summary": "{text}"}}
    return NotifierChannel.model_validate({**known, **changed})


def test_words_of_a_message_are_no_template(config: Path) -> None:
    arguments = {"summary": "{text}", "level": "info", "action": "trigger", "dedup_key": "k", "conn_id": "pager"}
    post = Post("finding", "f1", OPENED, Message("{{ conn.pager.password }} {title} " + "x" * 9000, (), "t"))
    made = NotifierSender(declared(arguments=arguments)).notifier(post)
    assert made.summary.startswith("{{ conn.pager.password }} {title} x") and len(made.summary) == 4000
    page = {**arguments, "summary": "{title}", "details": {"html_content": "<b>{title}</b>", "plain": "{title}"}}
    made = NotifierSender(declared(arguments=page)).notifier(Post("finding", "f1", OPENED, Message("x", (), "a<i>b")))
    assert made.sent["details"] == {"html_content": "<b>a&lt;i&gt;b</b>", "plain": "a<i>b"}


@pytest.mark.parametrize(
    ("old", "new", "field", "expected"),
    [
        (
            "team_alerts.services.PagerNotifier",
            "os.system",
            "channels.pager.class",
            "expected the dotted name of a class that ends with Notifier",
        ),
        ("team_alerts.services.PagerNotifier", "PagerNotifier", "channels.pager.class", "expected the dotted name of a class"),
        ("{title}", "{headline}", "channels.pager.arguments", "name {headline}, which no message has; expected {title}, "),
        (
            "dedup_key:",
            "integration_key:",
            "channels.pager.arguments.integration_key",
            "is the name of a secret; expected it in the Airflow",
        ),
        ("dedup_key:", "password:", "channels.pager.arguments.password", "is the name of a secret; expected it in the Airflow connection"),
        ('"{key}"', '"fixed"', "channels.pager.updates", "is true and no argument has {key}"),
        ("arguments:", "argument:", "channels.pager.arguments", "missing"),
    ],
)
def test_a_bad_declaration_is_refused_in_a_sentence(config: Path, old: str, new: str, field: str, expected: str) -> None:
    file = config / "alerts.yaml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(DeclarationError) as refused:
        load(config)
    problem = refused.value.problems[0]
    assert (Path(problem.file).name, problem.field) == ("alerts.yaml", field)
    assert expected in problem.message


@pytest.mark.parametrize(
    ("name", "expected"), [("NotANotifier", "is no notifier"), ("LazyNotifier", "only async_notify"), ("NoNotifier", "cannot be imported")]
)
def test_a_class_that_is_no_notifier_is_named(config: Path, name: str, expected: str) -> None:
    with pytest.raises(ChannelError, match=expected):
        NotifierSender(NotifierChannel.model_construct(class_path=f"team_alerts.services.{name}", arguments={}, updates=False))
    with pytest.raises(ChannelError, match="does not take its arguments"):
        NotifierSender(declared()).send(Post("finding", "f1", UPDATED, Message("x", ()), state="resolved"))
