"""A series in a campaign as drift reads it."""

from __future__ import annotations

import pytest
from tests.data.result_documents import FACTS, document, failed, training_metrics, trial

from plumbline.archive import Archive
from plumbline.results import Reason, Validity, metric_row

URI = "file:///store"


def test_a_sample_holds_the_best_attempts_and_every_outcome(archive: Archive) -> None:
    archive.record(document(trial(repeat=1), metrics=training_metrics(0.1)), uri=URI)
    archive.record(failed(trial(repeat=2)), uri=URI)
    archive.record(document(trial(repeat=2, attempt=2), metrics=training_metrics(0.2), facts={**FACTS, "cpu.usable": 1}), uri=URI)
    archive.record(document(trial(slot="10:00", repeat=1), metrics=training_metrics(0.3)), uri=URI, action="annotate")
    archive.record(document(trial(slot="10:00", repeat=2), metrics=training_metrics(9.0)), uri=URI, action="reject")
    sample = archive.sample(trial().series_key, "2025-11")
    steps = [
        (o.slot, o.repeat, o.value, o.unit, o.direction) for o in sample.observations if (o.metric, o.statistic) == ("step_time", "median")
    ]
    assert steps == [
        ("02:00", 1, 0.1, "s", "lower_is_better"),
        ("02:00", 2, 0.2, "s", "lower_is_better"),
        ("10:00", 1, 0.3, "s", "lower_is_better"),
    ]
    assert [facts["cpu.usable"] for facts in sample.environments] == [2, 1, 2]
    assert [(o.slot, o.repeat, o.attempt, o.status) for o in sample.outcomes] == [
        ("02:00", 1, 1, "valid"),
        ("02:00", 2, 1, "failed"),
        ("02:00", 2, 2, "valid"),
        ("10:00", 1, 1, "valid"),
        ("10:00", 2, 1, "invalid"),
    ]
    assert sample.planned == 4 and not sample.simulated
    times = archive.sample(trial().series_key, "2025-11", ["step_time"])
    assert times.observations == tuple(o for o in sample.observations if o.metric == "step_time") != sample.observations
    assert (times.environments, times.outcomes, times.planned) == (sample.environments, sample.outcomes, sample.planned)


def test_drift_knows_why_an_attempt_was_degraded(archive: Archive) -> None:
    worse = Validity(status="degraded", reasons=(Reason(code="gpu_xid", detail="79"), Reason(code="throttled", detail="heat")))
    archive.record(document(validity=worse), uri=URI)
    given = archive.sample(trial().series_key, "2025-11")
    assert given.outcomes[0].reasons == ("gpu_xid", "throttled")


def test_drift_can_be_given_a_sample(archive: Archive) -> None:
    archive.record(document(metrics=[*training_metrics(), metric_row("queue_time", None, 0)]), uri=URI)
    given = archive.sample(trial().series_key, "2025-11")
    assert given.planned == 1
    assert len(given.observations) == len(training_metrics()), "an absent value is left out"
    assert dict(given.environments[0]) == dict(sorted(FACTS.items()))
    assert given.outcomes[0].trial_id == trial().trial_id


def test_a_series_that_took_no_part_has_no_sample(archive: Archive) -> None:
    archive.record(document(), uri=URI)
    with pytest.raises(LookupError, match='"2099-01"'):
        archive.sample(trial().series_key, "2099-01")


def test_a_campaign_without_a_usable_trial_gives_an_empty_sample(archive: Archive) -> None:
    archive.record(failed(trial()), uri=URI)
    sample = archive.sample(trial().series_key, "2025-11")
    assert sample.observations == () and sample.environments == ()
    assert [o.status for o in sample.outcomes] == ["failed"]
