"""Findings about the installation in a real archive, and alerts that go on past a finding that cannot be read."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from tests.unit.alerts.test_message import FINDING
from tests.unit.findings.test_installation import AWAY

from plumbline.archive import Archive, FindingRecord
from plumbline.workflows import alert
from plumbline.workflows.check_installation import reconcile_failures

NOW = datetime(2026, 11, 22, 10, 23, tzinfo=timezone.utc)
CODES = ("component_away",)


def states(archive: Archive) -> list[str]:
    return [f.state for f in archive.findings_of("plumbline", "self")]


@pytest.mark.fault("a part of the installation fails", ends="one finding of kind self, resolved with its cause", keeps="other findings")
def test_a_failure_is_one_finding_that_resolves_with_its_cause(archive: Archive) -> None:
    (opened,) = reconcile_failures(archive, [AWAY], CODES, NOW)
    assert reconcile_failures(archive, [AWAY], CODES, NOW) == [], "seen again: nothing changes"
    later = replace(AWAY, cause="two hours", occurrence="another heartbeat")
    assert reconcile_failures(archive, [later], CODES, NOW + timedelta(hours=1)) == [opened], "the open one goes on"
    assert archive.finding(opened).detail["explanation"] == "two hours"
    assert reconcile_failures(archive, [], ("dag_paused",), NOW) == [], "what was not checked is not resolved"
    assert reconcile_failures(archive, [], CODES, NOW) == [opened] and states(archive) == ["resolved"]
    assert reconcile_failures(archive, [replace(AWAY, occurrence="the next time")], CODES, NOW) and sorted(states(archive)) == [
        "open",
        "resolved",
    ]


def test_what_a_person_resolved_does_not_open_again_until_the_next_occurrence(archive: Archive) -> None:
    (opened,) = reconcile_failures(archive, [AWAY], CODES, NOW)
    archive.set_finding_state(opened, "resolved", by="ada", why="known")
    assert reconcile_failures(archive, [AWAY], CODES, NOW) == [] and states(archive) == ["resolved"]


@pytest.mark.fault("a stored finding that cannot be read", ends="finding_unreadable, a finding of kind self", keeps="all other alerts")
@pytest.mark.parametrize(
    "detail",
    [{}, {**FINDING.to_dict(), "since": "2026-11-01"}, {**FINDING.to_dict(), "members": [3]}],
    ids=["empty", "two beginnings", "members of another shape"],
)
def test_one_unreadable_finding_does_not_end_alerting(archive: Archive, detail: dict[str, object]) -> None:
    for finding_id, content in (("broken", detail), ("whole", replace(FINDING, finding_id="whole").to_dict())):
        archive.save_findings([FindingRecord(finding_id, "", None, "lab", "price", "warn", f"WARN  {finding_id}", content)])
    log, said = logging.getLogger("test_own_findings"), list[str]()
    log.addFilter(lambda record: bool(said.append(f"{record.levelname} {record.getMessage()}")))
    done = alert.send_alerts(log)
    (own,) = archive.findings_of("plumbline", "self")
    assert sorted(done["log_only"]) == sorted(["whole", own.finding_id])
    assert own.detail["subject"] == "finding_unreadable broken" and "broken" in own.detail["remedy"]
    assert any(line.startswith("ERROR") and "broken" in line for line in said)
    log.filters.clear()
    assert sorted(alert.send_alerts()["log_only"]) == sorted(["whole", own.finding_id]), "no second finding about it"
    archive.set_finding_state("broken", "resolved", by="ada", why="of a test")
    alert.send_alerts()
    assert states(archive) == ["resolved"]
