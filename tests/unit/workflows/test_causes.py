"""What slows every training of a cloud a little is one finding, one message and one verdict on the page of changes, whatever came there with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser.large_fleet import TRAINING, declare, record_months

from plumbline.archive import Archive, FindingView, open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.declarations.installation import override_home
from plumbline.findings.headline import headline
from plumbline.presentation.findings_inbox import group_findings
from plumbline.results.finding import Finding
from plumbline.workflows.alert import send_alerts
from plumbline.workflows.baseline_decision import apply_answer
from plumbline.workflows.causes import unsettled_witnesses
from plumbline.workflows.review import review_campaign

WORKLOADS = TRAINING[:3]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The large fleet's cloud with the new driver, and one without; the folder."""
    folder = tmp_path_factory.mktemp("fleet")
    config = declare(folder / "config")
    for file in (config / "providers").iterdir():
        if not file.name.startswith(("aurora", "cirrus")):
            file.unlink()
    for team in (config / "teams").iterdir():  # where they run is not among the two clouds
        team.write_text(re.sub(r"^  current: .*\n", "", team.read_text(), flags=re.M))
    with override_home(folder / "home", config):
        record_months(load(), "2026-09..2026-10", workloads=WORKLOADS)
    return folder


@pytest.fixture
def archive(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("AIRFLOW_HOME", str(recorded / "airflow"))  # where a Slack connection is looked for
    with override_home(recorded / "home", recorded / "config"), open_archive() as opened:
        yield opened


def pooled(archive: Archive) -> list[FindingView]:
    return [view for view in archive.findings() if view.detail["cause"] and view.kind == "performance"]


def test_seven_per_cent_on_six_providers_is_one_page(archive: Archive) -> None:
    (found,) = pooled(archive)
    assert (found.severity, found.provider, found.campaign_id, found.state) == ("page", "fleet", "2026-10", "open")
    finding = Finding.of(found.detail)
    assert finding.cause is not None and finding.cause.names == ("cirrus", "driver 570.86.15", "CUDA 12.8")
    assert (finding.cause.cloud, finding.subject) == ("cirrus", "cause/cloud cirrus since 2026-10")
    assert finding.cause.missing and "second cloud" in finding.cause.decides and finding.cause.decides in finding.explanation
    assert (finding.cause.moved, finding.cause.series, finding.cause.moved_providers) == (18, 18, 6)
    assert 0.05 < (finding.effect or 0.0) < 0.09
    end = " slower in 18 of 18 trainings at 6 of 6 providers since October 2026; driver 570.86.15 or another change of this cloud"
    assert headline(finding).startswith("cirrus: ") and headline(finding).endswith(end)


def test_its_witnesses_are_one_entry_and_one_message(archive: Archive) -> None:
    (found,) = pooled(archive)
    others = {view.finding_id for view in archive.findings("open")} - {found.finding_id}
    assert len(others) >= 6 and unsettled_witnesses(archive) == dict.fromkeys(others, found.finding_id)
    (group,) = group_findings(archive.findings("open"), {})
    assert group.lead.view.finding_id == found.finding_id and len(group.siblings) == len(others)
    assert send_alerts()["log_only"] == [found.finding_id]


def test_another_review_of_a_provider_asks_once_and_changes_nothing(archive: Archive) -> None:
    (found,) = pooled(archive)
    reviewed = review_campaign("2026-10", "cirrus-us-east-h100")
    assert {f.finding_id for one in reviewed for f in one.findings} == {found.finding_id}
    (again,) = pooled(archive)
    assert (again.headline, again.opened_at, again.detail["seen_in"]) == (found.headline, found.opened_at, [])


def test_the_page_of_changes_shows_the_verdict(archive: Archive, recorded: Path) -> None:
    (found,) = pooled(archive)
    shown = (
        TestClient(create_app(archive_url=f"sqlite:///{recorded / 'home' / 'archive.db'}", reports=recorded)).get("/changes?parts=all").text
    )
    assert f'id="pooled-{found.finding_id}"' in shown and "18 of 18 trainings" in shown and "no finding" not in shown


def test_an_accepted_cause_settles_its_witnesses_and_does_not_come_again(archive: Archive) -> None:
    (found,) = pooled(archive)
    applied = apply_answer(archive, load(), found.finding_id, "accept", "ada", "the driver stays")
    assert len(applied.baselines) == 18 and set(applied.baselines.values()) == {"2026-10"}
    assert archive.findings("open") == []
    review_campaign("2026-10", "cirrus-us-east-h100")
    assert [view.state for view in pooled(archive)] == ["accepted"]


@pytest.mark.full
def test_the_whole_fleet_opens_one_page(tmp_path: Path) -> None:
    with override_home(tmp_path / "home", declare(tmp_path / "config")):
        record_months(load(), "2026-09..2026-10", workloads=TRAINING)
        with open_archive() as archive:
            views, covered = archive.findings("open"), unsettled_witnesses(archive)
            (page,) = [view for view in views if view.severity == "page"]
            warned = {view.finding_id for view in views if view.severity == "warn" and view.provider.startswith("cirrus")}
            assert len(warned) >= 6 and {covered.get(name) for name in warned} == {page.finding_id}, "no six warnings"
            assert all(sum(name in view.headline for name in load().providers) <= 3 for view in views)
            shown = TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'home' / 'archive.db'}", reports=tmp_path)).get(
                "/changes?parts=all"
            )
            assert f'id="pooled-{page.finding_id}"' in shown.text and "78 of 78 trainings" in shown.text
            assert "no finding" not in shown.text
            assert (
                "78 of 78 trainings at 6 of 6 providers since October 2026; driver 570.86.15 or another change of this cloud"
                in page.headline
            )
