"""What the archive answers about campaigns, trials, series and one metric's history."""

from __future__ import annotations

from datetime import timedelta

from tests.data.result_documents import PLANNED, document, failed, provider, training_metrics, trial

from plumbline.archive import Archive, Outcomes

URI = "file:///store"
OTHER = provider("lab-1core", instance_type="host-1core", accelerator={"kind": "cpu", "count": 1}, launcher={"kind": "local", "cpus": [0]})


def filled(archive: Archive) -> str:
    """Three campaigns of one series, the last also of another one; the middle one with every kind of outcome. Returns the series key."""
    for month, (campaign, step_time) in enumerate((("2025-09", 0.10), ("2025-10", 0.11), ("2025-11", 0.12))):
        for repeat in (1, 2):
            asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked, metrics=training_metrics(step_time)), uri=URI)
    later = PLANNED + timedelta(days=30)
    archive.record(failed(trial(campaign="2025-10", repeat=3, planned_at=later)), uri=URI)
    archive.record(document(trial(campaign="2025-10", repeat=3, attempt=2, planned_at=later)), uri=URI)
    archive.record(failed(trial(campaign="2025-10", repeat=4, planned_at=later)), uri=URI)
    archive.record(document(trial(campaign="2025-10", repeat=5, planned_at=later), status="invalid"), uri=URI)
    archive.record(document(trial(campaign="2025-10", repeat=6, planned_at=later)), uri=URI, action="reject")
    archive.record(document(trial("inference", campaign="2025-11", where=OTHER, planned_at=PLANNED + timedelta(days=60))), uri=URI)
    return trial().series_key


def test_campaigns_come_oldest_first_with_how_their_trials_ended(archive: Archive) -> None:
    filled(archive)
    campaigns = archive.campaigns()
    assert [(c.campaign_id, c.series) for c in campaigns] == [("2025-09", 1), ("2025-10", 1), ("2025-11", 2)]
    assert campaigns[1].outcomes == Outcomes(planned=6, usable=3, invalid=1, rejected=1, failed=1, missing=0)
    assert [c.campaign_id for c in archive.campaigns(latest=2)] == ["2025-10", "2025-11"]
    assert archive.campaigns(latest=1)[0].outcomes == campaigns[2].outcomes


def test_a_trial_counts_once_by_its_best_attempt(archive: Archive) -> None:
    archive.record(document(), uri=URI)
    archive.record(document(trial(attempt=2)), uri=URI, action="reject")  # a later attempt takes nothing away
    archive.record(document(trial(repeat=2), status="invalid"), uri=URI)
    archive.record(failed(trial(repeat=2, attempt=2)), uri=URI)  # none is usable: the last one says how it ended
    archive.record(document(trial(repeat=3)), uri=URI)
    archive.correct(document(trial(repeat=3, attempt=2)), 1, by="ada", why="a test", uri=URI, action="reject")
    expected = Outcomes(planned=3, usable=1, rejected=1, failed=1)
    (listed,) = archive.campaigns()
    assert listed.outcomes == expected and listed.series == 1
    sample = archive.sample(trial().series_key, "2025-11")
    assert (sample.planned, len(sample.environments)) == (expected.planned, expected.usable), "counted in two places, by one rule"


def test_campaigns_of_one_series_count_only_its_part(archive: Archive) -> None:
    series_key = filled(archive)
    campaigns = archive.campaigns(series_key)
    assert [(c.campaign_id, c.outcomes.planned) for c in campaigns] == [("2025-09", 2), ("2025-10", 6), ("2025-11", 2)]
    assert archive.campaigns("no/such/series") == []
    assert archive.latest_campaign(series_key) == "2025-11"
    assert archive.latest_campaign("no/such/series") is None


def test_trials_by_campaign_series_provider_and_kind(archive: Archive) -> None:
    series_key = filled(archive)
    assert len(archive.trials()) == 12
    assert len(archive.trials(campaign_id="2025-11")) == 3
    assert len(archive.trials(series_key=series_key, campaign_id="2025-10")) == 7
    assert [t.provider for t in archive.trials(provider="lab-1core")] == ["lab-1core"]
    assert {t.workload for t in archive.trials(kind="training")} == {"gpt-test"}
    assert archive.trials(kind="training", provider="lab-1core") == []


def test_series_are_listed_once(archive: Archive) -> None:
    filled(archive)
    assert [(s.kind, s.workload, s.version, s.provider, s.source) for s in archive.series()] == [
        ("inference", "chat-test", 1, "lab-1core", "measured"),
        ("training", "gpt-test", 1, "lab-2core", "measured"),
    ]
    assert len(archive.series(provider="lab-2core")) == len(archive.series(kind="inference")) == 1


def test_the_best_attempt_of_a_trial_is_its_last_usable_one(archive: Archive) -> None:
    for attempt, (status, step_time) in enumerate((("valid", 0.1), ("degraded", 0.2), ("invalid", 0.3)), start=1):
        archive.record(document(trial(attempt=attempt), status=status, metrics=training_metrics(step_time)), uri=URI)
    archive.record(failed(trial(attempt=4)), uri=URI)
    name, series_key = trial().trial_id, trial().series_key
    assert archive.document(name).trial.attempt == 2  # type: ignore[union-attr]
    assert archive.document(name, attempt=4).validity.status == "failed"  # type: ignore[union-attr]
    assert archive.document(name, attempt=9) is None
    assert archive.document("no.such.trial") is None
    assert [p.value for p in archive.metric_history(series_key, "step_time", "median")] == [0.2]


def test_a_trial_that_only_failed_still_has_its_last_document(archive: Archive) -> None:
    for attempt in (1, 2):
        archive.record(failed(trial(attempt=attempt)), uri=URI)
    assert archive.document(trial().trial_id).trial.attempt == 2  # type: ignore[union-attr]


def test_history_is_in_order_and_leaves_out_what_may_not_be_believed(archive: Archive) -> None:
    series_key = filled(archive)
    history = archive.metric_history(series_key, "step_time", "median")
    assert [(p.campaign_id, p.repeat, p.value) for p in history] == [
        ("2025-09", 1, 0.10),
        ("2025-09", 2, 0.10),
        ("2025-10", 1, 0.11),
        ("2025-10", 2, 0.11),
        ("2025-10", 3, 0.10),
        ("2025-11", 1, 0.12),
        ("2025-11", 2, 0.12),
    ]
    assert history[0].n > 0 and history[0].trial_id
    assert archive.metric_history(series_key, "step_time", "median", phase="warmup") == []


def test_all_documents_of_a_campaign_are_those_read_one_by_one(archive: Archive) -> None:
    filled(archive)
    archive.correct(document(trial(campaign="2025-10", repeat=6, attempt=2)), 1, by="ada", why="a test", uri=URI, action="accept")
    found = archive.documents("2025-10")
    effective = [(t.trial_id, t.attempt) for t in archive.trials("2025-10") if not t.corrected]
    assert sorted(found) == sorted(effective) and len(effective) < len(archive.trials("2025-10"))
    assert all(found[key] == archive.document(*key) for key in effective)
    assert archive.documents("2030-01") == {}
