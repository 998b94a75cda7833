"""A recorded campaign without a review is found and reviewed; one that still runs, was imported or has its review is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.installation import own_home
from tests.fakes.trials import CONFIG
from tests.unit.workflows.test_own_failures import Airflow

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.trials import Origin
from plumbline.workflows import check_installation, missing_reviews, review

NOW = datetime(2026, 11, 22, 10, 23, tzinfo=timezone.utc)
NAME = "local-1core"
DAG = "benchmark_local_1core"


@pytest.fixture
def declared() -> Declarations:
    return load(CONFIG)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The archive's time is the last one."""
    times = [NOW - timedelta(hours=2)]
    monkeypatch.setattr("plumbline.archive.engine.utc_now", lambda: times[-1])
    return times


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[datetime]) -> Iterator[Archive]:
    own_home(tmp_path, monkeypatch)
    with open_archive() as opened:
        yield opened


def record(archive: Archive, declared: Declarations, campaign: str = "2026-11", repeat: int = 1, origin: bool = True) -> None:
    asked = trial(campaign=campaign, repeat=repeat, where=declared.providers[NAME], planned_at=NOW - timedelta(hours=3))
    made = asked.model_copy(update={"origin": Origin(dag_id=DAG, run_id="r", bundle_version=None)}) if origin else asked
    assert archive.record(document(made), uri="file:///s") == "inserted"


def missing(archive: Archive, declared: Declarations, airflow: Airflow | None = None, now: datetime = NOW) -> list[str]:
    return [f"{one.campaign_id} {one.provider}" for one in missing_reviews.missing_reviews(archive, declared, airflow or Airflow(), now)]


@pytest.mark.fault(
    "the review of a recorded campaign failed, or never began", ends="review_missing; upkeep starts it", keeps="each review once"
)
def test_a_campaign_without_a_review_is_one_finding_until_it_is_reviewed(archive: Archive, declared: Declarations) -> None:
    record(archive, declared)
    (start,) = missing_reviews.reviews_to_start(archive, declared, Airflow(), NOW)
    assert start == {"conf": {"campaign": "2026-11", "provider": NAME}, "trigger_run_id": f"upkeep_2026-11_{NAME}_2026-11-22"}
    assert [start] == missing_reviews.reviews_to_start(archive, declared, Airflow(), NOW + timedelta(hours=1)), "the same run all day"
    for now in (NOW, NOW + timedelta(hours=1)):
        airflow = Airflow(beats=dict.fromkeys(("triggerer", "dag_processor"), now))
        found, codes = check_installation.find_failures(archive, declared, airflow, now)
        check_installation.reconcile_failures(archive, found, codes, now)
    (finding,) = archive.findings_of("plumbline", "self")
    assert finding.detail["subject"] == f"review_missing 2026-11 {NAME}" and "upkeep starts the review" in finding.detail["remedy"]
    review.review_campaign("2026-11", NAME)
    assert missing(archive, declared) == []
    check_installation.reconcile_failures(archive, *check_installation.find_failures(archive, declared, airflow, now), now)
    assert [f.state for f in archive.findings_of("plumbline", "self")] == ["resolved"]
    before = len(archive.audit())
    review.review_campaign("2026-11")
    assert len(archive.audit()) == before, "a review that sees nothing new notes nothing"


def test_results_after_a_review_need_another_one(archive: Archive, declared: Declarations, clock: list[datetime]) -> None:
    record(archive, declared)
    review.review_campaign("2026-11")
    clock.append(NOW)
    record(archive, declared, repeat=2)
    assert missing(archive, declared) == [], "its review may still come"
    assert missing(archive, declared, now=NOW + timedelta(hours=1)) == [f"2026-11 {NAME}"]


@pytest.mark.parametrize("busy", [DAG, "drift_review"])
def test_a_campaign_that_runs_or_is_being_reviewed_waits(archive: Archive, declared: Declarations, busy: str) -> None:
    record(archive, declared)
    assert missing(archive, declared, Airflow(busy=(busy,))) == []


def test_results_that_no_benchmark_of_airflow_made_are_not_missed(archive: Archive, declared: Declarations) -> None:
    record(archive, declared, origin=False)
    assert missing(archive, declared) == []
    record(archive, declared, repeat=2)
    assert missing(archive, replace(declared, providers={})) == [], "their provider is not declared here"


def test_an_hour_starts_a_few_reviews_a_week_long_and_none_while_the_dag_is_paused(archive: Archive, declared: Declarations) -> None:
    for n in range(6):
        record(archive, declared, campaign=f"on-demand-{n}")
    by_hour = [missing_reviews.reviews_to_start(archive, declared, Airflow(), NOW + timedelta(hours=n)) for n in range(3)]
    assert {len(rows) for rows in by_hour} == {missing_reviews.AT_ONCE}
    assert len({row["trigger_run_id"] for rows in by_hour for row in rows}) == 6, "each has its turn"
    assert missing_reviews.reviews_to_start(archive, declared, Airflow(is_paused={"drift_review": True}), NOW) == []
    assert missing_reviews.reviews_to_start(archive, declared, Airflow(), NOW + timedelta(days=8)) == []
    assert len(missing(archive, declared, now=NOW + timedelta(days=8))) == 6, "the finding stays"
