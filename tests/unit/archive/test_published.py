"""Imported results: written once, read back whole, and never in a measured series."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.data.result_documents import PLANNED, document, provider, trial
from tests.unit.archive.test_verify import damage
from tests.unit.results.test_published import result

from plumbline.archive import Archive, Refused, open_archive
from plumbline.archive.columns import CompressedText
from plumbline.results import InvalidResult, Reason, Validity, metric_row


def test_a_result_becomes_a_trial_of_an_imported_series(archive: Archive) -> None:
    one, two = result(), result(repeat=2)
    assert archive.import_outside([one, two]).inserted == 2
    (series,) = archive.series()
    assert (series.source, series.series_key) == ("imported", one.series_key)
    seen = archive.trials("example-bench-v1")
    assert [(t.trial_id, t.slot, t.repeat, t.source, t.launcher) for t in seen] == [
        (one.trial_id, "box", 1, "imported", "imported"),
        (two.trial_id, "box", 2, "imported", "imported"),
    ]
    sample = archive.sample(one.series_key, one.campaign_id)
    assert [o.value for o in sample.observations] == [600.0, 600.0] and sample.environments[0] == {"driver.version": "550"}
    assert archive.imported(one.trial_id) == one and archive.imported("nobody") is None
    assert archive.document(one.trial_id) is None, "no harness of ours wrote one"
    assert archive.verify() == []


def test_importing_again_changes_nothing_and_other_values_stay_out(archive: Archive) -> None:
    archive.import_outside([result()])
    other = result(metrics=(metric_row("time_to_train", 1.0, 1),))
    again = archive.import_outside([result(), result(repeat=2)])
    assert (again.inserted, again.unchanged, again.kept_out) == (1, 1, ())
    assert archive.import_outside([other]).kept_out == (other.trial_id,)
    assert archive.imported(other.trial_id) == result()
    assert archive.import_outside([]).inserted == 0


def test_an_invalid_run_is_there_and_counts_for_nothing(archive: Archive) -> None:
    stopped = Validity(status="invalid", reasons=(Reason(code="target_not_reached", detail="stopped"),))
    archive.import_outside([result(), result(repeat=2, validity=stopped, metrics=(metric_row("time_to_train", None, 0),))])
    (campaign,) = archive.campaigns()
    assert (campaign.outcomes.planned, campaign.outcomes.usable, campaign.outcomes.invalid) == (2, 1, 1)


def test_a_series_is_imported_or_measured_and_never_both(archive: Archive) -> None:
    archive.import_outside([result()])
    damage(archive, "UPDATE series SET source = 'measured'")
    with pytest.raises(Refused, match="measured"):
        archive.import_outside([result(campaign_id="example-bench-v2"), result(repeat=2)])
    assert len(archive.trials()) == 1, "all or none"


def test_campaigns_say_what_they_hold_and_the_newest_is_one_of_ours(archive: Archive) -> None:
    assert archive.newest_campaign() is None
    archive.import_outside([result(published_at=PLANNED + timedelta(days=900))])
    assert archive.newest_campaign() is None, "nobody here ran it"
    archive.record(document(), uri="file:///store")
    archive.record(document(trial(where=provider("rehearsal")), simulated=True), uri="file:///store")
    assert archive.newest_campaign() == "2025-11"
    assert {c.campaign_id: c.sources for c in archive.campaigns()} == {
        "2025-11": ("measured", "simulated"),
        "example-bench-v1": ("imported",),
    }
    assert [c.sources for c in archive.campaigns(trial().series_key)] == [("measured",)]
    assert [s.provider for s in archive.series(campaign_id="2025-11")] == ["lab-2core", "rehearsal"]
    assert archive.series(campaign_id="nowhere") == []


def test_imported_campaigns_travel_like_ours(archive: Archive, tmp_path: Path) -> None:
    archive.import_outside([result(), result(repeat=2)])
    archive.export(tmp_path / "bundle")
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.import_(tmp_path / "bundle")
        assert other.imported(result().trial_id) == result() and other.verify() == []
        assert other.import_outside([result()]).unchanged == 1


def test_verify_names_what_was_changed_behind_its_back(archive: Archive) -> None:
    archive.import_outside([result()])
    damage(archive, "UPDATE trials SET checksum = 'x'", "UPDATE metrics SET value = 1.0")
    problems = archive.verify()
    assert any("checksum is x;" in problem for problem in problems)
    assert any("time_to_train value" in problem and problem.endswith(" 600.0") for problem in problems)


def test_a_document_that_no_longer_holds_is_said(archive: Archive) -> None:
    archive.import_outside([result()])
    packed = CompressedText().process_bind_param("{}", archive.engine.dialect)
    assert packed is not None
    damage(archive)
    with archive.engine.connect() as connection:
        connection.execute(text("UPDATE documents SET content = :packed"), {"packed": packed})
        connection.commit()
        with pytest.raises(InvalidResult, match="does not hold"):
            archive.imported(result().trial_id)


def test_the_newest_campaign_is_a_monthly_one_and_an_acceptance_only_where_there_is_nothing_else(archive: Archive) -> None:
    """A rerun of one workload, or a measurement of each node, answers a question of its own."""
    later = iter(range(1, 9))

    def record(campaign: str, placement: str = "any") -> None:
        planned = trial(campaign=campaign, planned_at=PLANNED + timedelta(days=next(later)))
        archive.record(document(planned.model_copy(update={"placement": placement})), uri="file:///store")

    record("accept-20251126", "each_node")
    assert archive.newest_campaign() == "accept-20251126"
    record("rerun-20251127")
    record("accept-20251128", "each_node")
    assert archive.newest_campaign() == "rerun-20251127"
    record("2025-12")
    record("rerun-20251202")
    record("test-01")
    record("2025-13")
    assert archive.newest_campaign() == "2025-12"
    record("2026-01")
    assert archive.newest_campaign() == "2026-01"
