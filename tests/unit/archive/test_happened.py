"""What happened in a span of time is found by the span, with what was before it as far as it is needed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from tests.data.price_readings import FIRST, reading

from plumbline.archive import Archive
from plumbline.results.stored import DecisionRecord

PROVIDER = "lab-2core"
SOON = datetime.now(timezone.utc) + timedelta(days=1)


def test_a_price_that_differs_from_the_reading_before_it_is_a_step(archive: Archive) -> None:
    first, same, dearer, other = reading(1), reading(2), reading(9, 5.0), reading(10, source="csv")
    archive.record_readings([first, same, dearer, other])
    steps = lambda begin, of=PROVIDER: archive.price_steps([of], ["on_demand"], (begin, None))  # noqa: E731
    (step,) = steps(FIRST)
    assert (step.reading_id, step.after / step.before) == (dearer.reading_id, dearer.usd_per_instance_hour / first.usd_per_instance_hour)
    assert steps(FIRST + timedelta(days=5)) == [step], "compared with the last reading before the span"
    assert steps(FIRST + timedelta(days=10)) == [] == steps(FIRST, "another")
    assert archive.newest_price_reading([PROVIDER]) == other.observed_at and archive.newest_price_reading(["another"]) is None


def test_only_decisions_that_moved_a_first_choice_are_moved_choices(archive: Archive) -> None:
    assert archive.newest_decision() is None
    archive.save_decision(DecisionRecord("same", "platform", "training", "near", 0.9, {"workloads": ["gpt"], "instead_of": None}))
    moved = {"workloads": ["gpt", "other"], "instead_of": "near", "why": "a price rose", "simulated": True}
    archive.save_decision(DecisionRecord("moved", "platform", "training", "far", 0.9, moved))
    archive.save_decision(DecisionRecord("none", "platform", "training", None, None, {"workloads": ["gpt"], "instead_of": "far"}))
    found = {one.decision_id: one for one in archive.moved_choices((FIRST, SOON), 10)}
    assert sorted(found) == ["moved", "none"]
    one = found["moved"]
    assert (one.workloads, one.first, one.instead_of, one.why, one.simulated) == (("gpt", "other"), "far", "near", "a price rose", True)
    assert (found["none"].first, found["none"].simulated) == (None, False)
    assert len(archive.moved_choices((FIRST, SOON), 1)) == 1 and archive.moved_choices((SOON, None), 10) == []


def test_entries_of_the_audit_log_by_action_span_and_subject(archive: Archive) -> None:
    for what, subject in (("rerun_asked", "a"), ("baseline_kept", "b"), ("baseline_kept", "c")):
        archive.add_audit(who="ada", what=what, subject=subject, why="to see")
    what = ("baseline_kept",)
    named = lambda *args: [entry.subject for entry in archive.audit_between(*args)]  # noqa: E731
    assert named(what, (FIRST, SOON), 10) == ["c", "b"] and named(what, (FIRST, SOON), 1) == ["c"]
    assert named(what, (FIRST, SOON), 10, ["b", "x"]) == ["b"] and named(what, (FIRST, SOON), 10, []) == []
    assert named(what, (SOON, None), 10) == [] == named(("nothing",), (FIRST, SOON), 10)
    assert archive.newest_entry(what) is not None and archive.newest_entry(("nothing",)) is None


def test_a_campaign_is_reviewed_when_its_last_series_was(archive: Archive) -> None:
    assert archive.reviews_between((FIRST, SOON)) == {}
    for series in ("a", "b"):
        archive.add_audit(who="drift", what="series_reviewed", subject=series, why="steady", detail={"campaign_id": "2026-11"})
    (found,) = archive.reviews_between((FIRST, SOON)).items()
    assert found == ("2026-11", max(entry.at for entry in archive.audit(("a", "b"))))
    assert archive.reviews_between((SOON, None)) == {}
