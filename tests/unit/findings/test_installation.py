from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from plumbline.alerts import render
from plumbline.alerts.message import render_details
from plumbline.findings.types.installation import INSTALLATION, InstallationFailure, installation_finding
from plumbline.results.finding import Finding

AWAY = InstallationFailure(
    code="component_away",
    what="triggerer",
    occurrence="2026-11-22T09:30",
    since=datetime(2026, 11, 22, 9, 30, tzinfo=timezone.utc),
    severity="page",
    title="the triggerer is away",
    cause="its last heartbeat was at 09:30 UTC",
    remedy="docker compose up -d triggerer",
)


def test_one_occurrence_is_one_finding_whatever_is_said_of_it() -> None:
    found = installation_finding(AWAY)
    assert (found.kind, found.provider, found.campaign_id, found.since, found.series) == ("self", INSTALLATION, None, "2026-11-22", ())
    assert installation_finding(replace(AWAY, cause="still", severity="warn")).finding_id == found.finding_id
    assert installation_finding(replace(AWAY, occurrence="2026-11-22T11:00")).finding_id != found.finding_id
    assert installation_finding(replace(AWAY, what="scheduler")).finding_id != found.finding_id
    assert Finding.of(found.to_dict()) == found


def test_its_message_names_the_remedy_and_no_workload() -> None:
    message = render(installation_finding(AWAY))
    shown = str(message.blocks)
    assert AWAY.remedy in message.text and AWAY.remedy in shown
    details = str(render_details(installation_finding(AWAY)).blocks)
    assert "component_away triggerer" in details and "Workload" not in details
