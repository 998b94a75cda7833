"""The baseline: bootstrapped once by the written rule, moved only by a decision."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.data.result_documents import PLANNED, document, failed, trial
from tests.golden import Golden

from plumbline.archive import Archive
from plumbline.archive.baselines import BOOTSTRAP
from plumbline.declarations import DriftRules

URI = "file:///store"
SERIES = trial().series_key
RULES = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2}')


def campaign(archive: Archive, name: str, month: int, outcomes: str, replay_of: str | None = None) -> None:
    """One trial for each letter: v valid, d degraded, i invalid, f failed, r rejected by the quality checks."""
    for repeat, letter in enumerate(outcomes, start=1):
        asked = trial(campaign=name, repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month), replay_of=replay_of)
        measured = failed(asked) if letter == "f" else document(asked, status={"d": "degraded", "i": "invalid"}.get(letter, "valid"))
        archive.record(measured, uri=URI, action="reject" if letter == "r" else "accept")


def test_the_first_complete_campaign_becomes_the_baseline(archive: Archive, golden: Golden) -> None:
    campaign(archive, "2025-11", 0, "vd")
    campaign(archive, "2025-12", 1, "vv")
    assert archive.baseline(SERIES) == []
    assert archive.bootstrap_baseline(SERIES, RULES) == "2025-11"
    assert archive.bootstrap_baseline(SERIES, RULES) is None
    assert archive.baseline(SERIES) == ["2025-11"]
    (entry,) = archive.audit(SERIES)
    assert (entry.who, entry.what) == (BOOTSTRAP, "baseline_accepted")
    golden("archive.baseline_bootstrapped", entry.why)


@pytest.mark.parametrize("outcomes", ["v", "vvf", "ri", "vi", "ff", "vr"])
def test_an_incomplete_campaign_does_not(archive: Archive, outcomes: str) -> None:
    campaign(archive, "2025-11", 0, outcomes)
    assert archive.bootstrap_baseline(SERIES, RULES) is None
    campaign(archive, "2025-12", 1, "vvi")
    assert archive.bootstrap_baseline(SERIES, RULES) == "2025-12"


def test_a_trial_that_failed_first_and_was_repeated_does_not_spoil_it(archive: Archive) -> None:
    archive.record(failed(trial(repeat=1)), uri=URI)
    for repeat in (1, 2):
        archive.record(document(trial(repeat=repeat, attempt=2)), uri=URI)
    assert archive.bootstrap_baseline(SERIES, RULES) == "2025-11"


def test_a_campaign_of_replays_does_not(archive: Archive) -> None:
    campaign(archive, "replay-1", 0, "vv", replay_of="some.trial")
    assert archive.bootstrap_baseline(SERIES, RULES) is None


def months(archive: Archive, *outcomes: str) -> list[str]:
    names = [f"2026-{number:02d}" for number in range(1, len(outcomes) + 1)]
    for number, name in enumerate(names):
        campaign(archive, name, number, outcomes[number])
    return names


def test_the_next_complete_campaigns_join_until_as_many_were_looked_at_as_are_declared(archive: Archive, golden: Golden) -> None:
    names = months(archive, "vv", "vv", "vf", "vd", "vv")
    assert archive.bootstrap_baseline(SERIES, RULES) == names[0]
    assert [archive.join_baseline(SERIES, name, RULES) for name in names] == [False, True, False, True, False]
    assert archive.baseline(SERIES) == ["2026-01", "2026-02", "2026-04"], "the incomplete one does not count, the fifth is the fourth"
    assert [(b.rule, b.accepted_by) for b in archive.baseline_history(SERIES)] == [("bootstrap", BOOTSTRAP)] * 3
    assert [archive.join_baseline(SERIES, name, RULES) for name in names] == [False] * 5, "to be reviewed again changes nothing"
    last = archive.audit(SERIES)[-1]
    assert last.detail["before"] == ["2026-01", "2026-02"]
    golden("archive.baseline_joined", last.why)


def test_none_joins_in_place_of_one_that_drifted(archive: Archive) -> None:
    names = months(archive, "vv", "vv", "vv", "vv")
    archive.bootstrap_baseline(SERIES, RULES)
    assert archive.join_baseline(SERIES, names[2], RULES), "the second one drifted: nobody let it join"
    assert not archive.join_baseline(SERIES, names[3], RULES)
    assert archive.baseline(SERIES) == ["2026-01", "2026-03"]


def test_one_campaign_is_all_where_one_is_declared(archive: Archive) -> None:
    alone = RULES.model_copy(update={"bootstrap_campaigns": 1})
    names = months(archive, "vv", "vv")
    archive.bootstrap_baseline(SERIES, alone)
    assert not archive.join_baseline(SERIES, names[1], alone)


def test_a_campaign_joins_once_it_has_the_slots_of_the_first_one(archive: Archive) -> None:
    def measured(month: int, slot: str) -> None:
        for repeat in (1, 2):
            asked = trial(campaign=f"2026-0{month}", repeat=repeat, slot=slot, planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked), uri=URI)

    for slot in ("02:00", "14:00"):
        measured(1, slot)
    archive.bootstrap_baseline(SERIES, RULES)
    measured(2, "02:00")
    assert not archive.join_baseline(SERIES, "2026-02", RULES), "its afternoon is still to come"
    measured(2, "14:00")
    assert archive.join_baseline(SERIES, "2026-02", RULES)


def test_nothing_joins_a_decision_nor_a_series_without_a_baseline(archive: Archive) -> None:
    names = months(archive, "vv", "vv", "vv")
    assert not archive.join_baseline(SERIES, names[0], RULES)
    archive.bootstrap_baseline(SERIES, RULES)
    archive.accept_baseline(SERIES, names[1], by="ada", why="the new driver is here to stay")
    assert not archive.join_baseline(SERIES, names[2], RULES)
    assert archive.baseline(SERIES) == [names[1]]


def test_a_decision_takes_the_place_of_all_that_were_bootstrapped(archive: Archive) -> None:
    names = months(archive, "vv", "vv", "vv")
    archive.bootstrap_baseline(SERIES, RULES)
    archive.join_baseline(SERIES, names[1], RULES)
    archive.accept_baseline(SERIES, names[1], by="ada", why="the first one had a lucky node")
    assert archive.baseline(SERIES) == [names[1]]
    assert [b.superseded_at is None for b in archive.baseline_history(SERIES)] == [False, False, True]


def test_an_accepted_baseline_takes_the_place_of_the_old_one(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "vv")
    campaign(archive, "2025-12", 1, "vf")
    archive.bootstrap_baseline(SERIES, RULES)
    view = archive.accept_baseline(SERIES, "2025-12", by="ada", why="the new driver is here to stay")
    assert (view.rule, view.accepted_by, view.superseded_at) == ("decision", "ada", None)
    assert archive.baseline(SERIES) == ["2025-12"]
    assert [(b.campaign_id, b.superseded_at is None) for b in archive.baseline_history(SERIES)] == [("2025-11", False), ("2025-12", True)]
    assert archive.accept_baseline(SERIES, "2025-12", by="bob", why="again") == view
    assert archive.bootstrap_baseline(SERIES, RULES) is None
    assert [(e.who, e.detail["before"]) for e in archive.audit(SERIES)] == [(BOOTSTRAP, []), ("ada", ["2025-11"])]


def test_an_old_baseline_can_be_accepted_again(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "vv")
    campaign(archive, "2025-12", 1, "vv")
    for name in ("2025-11", "2025-12", "2025-11"):
        archive.accept_baseline(SERIES, name, by="ada", why="rolled back")
    assert archive.baseline(SERIES) == ["2025-11"]
    assert len(archive.baseline_history(SERIES)) == 3


def test_what_cannot_be_a_baseline_is_refused(archive: Archive) -> None:
    campaign(archive, "2025-11", 0, "fi")
    with pytest.raises(LookupError, match='no series "no/such"'):
        archive.accept_baseline("no/such", "2025-11", by="ada", why="x")
    with pytest.raises(LookupError, match='"2099-01"'):
        archive.accept_baseline(SERIES, "2099-01", by="ada", why="x")
    with pytest.raises(ValueError, match='"2025-11"'):
        archive.accept_baseline(SERIES, "2025-11", by="ada", why="x")
    with pytest.raises(ValueError, match="why is empty"):
        archive.accept_baseline(SERIES, "2025-11", by="ada", why=" ")
    with pytest.raises(LookupError, match="no series"):
        archive.bootstrap_baseline("no/such", RULES)
    with pytest.raises(LookupError, match="no series"):
        archive.join_baseline("no/such", "2025-11", RULES)
    assert archive.audit() == []
