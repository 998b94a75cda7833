"""Recording: idempotent by natural key, never at the cost of what is there."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from tests.data.result_documents import PLANNED, document, failed, inference_metrics, training_metrics, trial

from plumbline.archive import Archive, Refused
from plumbline.archive.engine import reading, writing
from plumbline.results import Reason, metric_row

URI = "file:///store/2025-11/x/attempt-1"


def rows(archive: Archive) -> dict[str, int]:
    names = ("campaigns", "series", "environments", "trials", "documents", "metrics", "stages", "telemetry", "evidence", "audit")
    with reading(archive.engine) as session:
        return {name: session.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names}


def test_a_document_comes_back_whole(archive: Archive) -> None:
    measured = document()
    assert archive.record(measured, uri=URI) == "inserted"
    assert archive.document(measured.trial.trial_id) == measured
    assert archive.document(measured.trial.trial_id).launch == measured.launch  # type: ignore[union-attr]
    (view,) = archive.trials()
    assert (view.kind, view.provider, view.status, view.source, view.usable) == ("training", "lab-2core", "valid", "measured", True)
    assert view.environment_hash == measured.environment.environment_hash  # type: ignore[union-attr]
    assert view.started_at == measured.launch.events[0].utc  # type: ignore[union-attr]
    assert view.started_at.tzinfo is not None
    assert view.finished_at == measured.timeline[-1].utc


@pytest.mark.fault("record runs twice", ends="unchanged", keeps="one row an attempt")
def test_a_retry_changes_nothing(archive: Archive) -> None:
    measured = document()
    archive.record(measured, uri=URI)
    before = rows(archive)
    assert archive.record(measured, uri=URI) == "unchanged"
    assert rows(archive) == before
    assert before["metrics"] == len(measured.metrics) + 1


def test_another_document_of_the_same_attempt_is_kept_out_and_logged_once(archive: Archive) -> None:
    good, other = document(), document(metrics=training_metrics(step_time=0.2))
    archive.record(good, uri=URI)
    for _ in range(2):
        assert archive.record(other, uri="file:///elsewhere") == "kept"
    assert archive.document(good.trial.trial_id) == good
    (entry,) = archive.audit(f"{good.trial.trial_id}#1")
    assert entry.what == "document_kept_out"
    assert entry.detail["arrived"] == {"checksum": other.checksum, "uri": "file:///elsewhere", "status": "valid"}
    assert entry.detail["kept"]["checksum"] == good.checksum


@pytest.mark.parametrize("spoilt", ["failed", "invalid", "rejected"])
def test_a_bad_attempt_never_replaces_a_good_row(archive: Archive, spoilt: str) -> None:
    good = document()
    archive.record(good, uri=URI)
    for attempt in (1, 2):
        asked = trial(attempt=attempt)
        late = failed(asked) if spoilt == "failed" else document(asked, status="invalid" if spoilt == "invalid" else "degraded")
        archive.record(late, uri=URI, action="reject" if spoilt == "rejected" else "accept")
    assert archive.document(good.trial.trial_id) == good
    sample = archive.sample(good.trial.series_key, "2025-11")
    assert {o.value for o in sample.observations if o.metric == "step_time" and o.statistic == "median"} == {0.1}
    assert len(sample.environments) == 1
    assert [o.attempt for o in sample.outcomes] == [1, 2]


def test_a_failed_trial_is_recorded_with_its_class(archive: Archive) -> None:
    measured = failed(trial())
    archive.record(measured, uri=URI)
    (view,) = archive.trials()
    assert (view.status, view.failure_class, view.environment_hash, view.usable) == ("failed", "out_of_memory", None, False)
    assert view.reasons == measured.validity.reasons and [reason.code for reason in view.reasons] == ["out_of_memory"]


def test_a_second_verdict_on_the_same_document_is_logged_and_does_not_stand(archive: Archive) -> None:
    measured = document()
    archive.record(measured, uri=URI, action="annotate", quality_reasons=[Reason(code="no_evidence", detail="none")])
    for _ in range(2):
        assert archive.record(measured, uri=URI, action="reject") == "unchanged"
    (view,) = archive.trials()
    assert view.quality_action == "annotate"
    assert view.quality_reasons == (Reason(code="no_evidence", detail="none"),)
    assert [e.what for e in archive.audit()] == ["verdict_differs"]


def test_a_repeated_metric_is_refused_unless_the_document_was_rejected(archive: Archive) -> None:
    twice = document(metrics=[*training_metrics(), metric_row("step_time", 0.5, 20)])
    with pytest.raises(Refused, match="steady step_time median"):
        archive.record(twice, uri=URI)
    assert rows(archive)["campaigns"] == 0, "nothing of a refused document may stay"
    assert archive.record(twice, uri=URI, action="reject") == "inserted"
    assert archive.document(twice.trial.trial_id) == twice
    assert archive.verify() == []


def test_an_outside_metric_that_the_harness_measured_too_is_refused(archive: Archive) -> None:
    lead = metric_row("provisioning_lead_time", 1.5, 1, phase="cold_start")
    with pytest.raises(Refused, match="cold_start provisioning_lead_time value"):
        archive.record(document(metrics=(*training_metrics(), lead)), uri=URI)


def test_simulated_and_measured_never_share_a_series(archive: Archive) -> None:
    archive.record(document(), uri=URI)
    with pytest.raises(Refused, match=r"simulated .*training/gpt-test@1.* measured"):
        archive.record(document(trial(campaign="2025-12"), simulated=True), uri=URI)
    assert [c.campaign_id for c in archive.campaigns()] == ["2025-11"]


def test_environments_are_stored_once(archive: Archive) -> None:
    for repeat in (1, 2):
        archive.record(document(trial(repeat=repeat)), uri=URI)
    archive.record(document(trial(repeat=3), facts={"cpu.model": "another"}), uri=URI)
    assert rows(archive)["environments"] == 2


def test_both_kinds_and_absent_values(archive: Archive) -> None:
    asked = trial("inference")
    archive.record(document(asked, metrics=[*inference_metrics(), metric_row("queue_time", None, 0)]), uri=URI)
    assert archive.metric_history(asked.series_key, "queue_time", "mean") == []
    (point,) = archive.metric_history(asked.series_key, "goodput", "value")
    assert (point.value, point.n, point.planned_at) == (5.8, 60, PLANNED)


@pytest.mark.parametrize(
    "change",
    ["UPDATE metrics SET value = 0", "UPDATE trials SET status = 'valid'", "UPDATE environments SET facts = '{}'", "DELETE FROM audit"],
)
@pytest.mark.fault("SQL changes a measured row", ends="refused by the database", keeps="what was measured")
def test_the_database_itself_refuses_to_change_what_was_measured(archive: Archive, change: str) -> None:
    archive.record(document(), uri=URI)
    archive.add_audit(who="ada", what="looked", subject="x", why="test")
    with pytest.raises(DBAPIError, match="append-only"), writing(archive.engine) as session:
        session.execute(text(change))
