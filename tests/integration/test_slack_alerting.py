"""From the archive to a Slack that listens on loopback, by the connection, as every task does it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.fakes.fake_slack import CHANNEL, FakeSlack
from tests.fakes.kept_findings import keep
from tests.integration.test_slack_delivery import finding

from plumbline.archive import open_archive
from plumbline.workflows.alert import send_alerts


def test_what_the_archive_holds_is_told_by_the_connection_and_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    environment = finding(kind="environment", subject="environment", metric=None)
    with FakeSlack() as server, open_archive() as archive:
        connection = {"conn_type": "slack", "password": server.token, "extra": {"base_url": server.url, "channel": CHANNEL}}
        monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps(connection))
        keep(archive, environment)
        assert send_alerts()["posted"] == [environment.finding_id]
        assert send_alerts()["unchanged"] == [environment.finding_id]
        archive.snooze_finding(environment.finding_id, datetime.now(timezone.utc) + timedelta(days=1), "ada", "known")
        assert send_alerts()["updated"] == [environment.finding_id]
        archive.set_finding_state(environment.finding_id, "resolved", by="ada", why="mended")
        assert send_alerts()["updated"] == [environment.finding_id]
        assert not any(send_alerts().values()), "what is over and told is nobody's business any more"
        # The message, then the details in its thread; each change updates both.
        assert server.methods() == ["chat.postMessage", "chat.postMessage", *["chat.update"] * 4]
        (message,) = server.shown()
        (details,) = server.thread(message["ts"])
        assert "subtype" not in details and "resolved" in json.dumps(details["blocks"])
