"""Prices and decisions are stored once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from tests.data.result_documents import document, trial

from plumbline.archive import Archive, DecisionRecord

RANKING = DecisionRecord("d1", "platform", "training", "lab-2core", 0.91, {"ranking": ["lab-2core", "lab-1core"]})


def test_a_decision_from_the_same_inputs_is_stored_once(archive: Archive) -> None:
    assert archive.save_decision(RANKING)
    assert not archive.save_decision(replace(RANKING, winner="lab-1core"))
    assert archive.save_decision(replace(RANKING, decision_id="d2", kind="inference", winner=None, probability=None))
    assert [(d.decision_id, d.winner) for d in archive.decisions()] == [("d2", None), ("d1", "lab-2core")]
    assert [d.detail for d in archive.decisions(team="platform", kind="training")] == [RANKING.detail]
    assert archive.decisions(team="product") == []


def test_the_newest_decision_of_each_choice(archive: Archive) -> None:
    """Choices differ in team, kind and workloads; those of other workloads do not hide each other."""

    def save(name: str, workloads: list[str], campaign: str = "2025-10", winner: str | None = "lab-2core", team: str = "platform") -> None:
        detail = {"workloads": workloads, "campaigns": {"lab-2core": [campaign]}}
        archive.save_decision(DecisionRecord(name, team, "training", winner, 0.9, detail))

    def newest(**of: str | None) -> list[str]:
        return sorted(d.decision_id for d in archive.newest_decisions(**of))  # type: ignore[arg-type]

    assert newest() == []
    for name, workloads in (("a1", ["a"]), ("a2", ["a"]), ("b1", ["b"]), ("ab", ["a", "b"]), ("a3", ["a"])):
        save(name, workloads)
    save("other", ["a"], team="product")
    archive.save_decision(replace(RANKING, decision_id="old"))
    assert newest() == ["a3", "ab", "b1", "old", "other"] and newest(team="product") == ["other"]
    assert [d.decision_id for d in archive.newest_decisions("platform", "training", ["a", "b"])] == ["ab"]
    assert archive.newest_decisions("platform", "training", ["c"]) == ()


def test_the_choice_before_a_campaign_rests_on_no_newer_one(archive: Archive) -> None:
    for campaign in ("2025-10", "2025-11", "2025-12"):
        planned_at = datetime.fromisoformat(f"{campaign}-01T00:00:00+00:00")
        archive.record(document(trial(campaign=campaign, planned_at=planned_at)), uri="file:///store")
        detail = {"workloads": ["a"], "campaigns": {"lab-2core": [campaign]}}
        archive.save_decision(DecisionRecord(f"d-{campaign}", "platform", "training", "lab-2core", 0.9, detail))
    assert [d.decision_id for d in archive.newest_decisions(without="2025-12")] == ["d-2025-11"]
    assert [d.decision_id for d in archive.newest_decisions(without="2025-11")] == ["d-2025-10"]
    assert archive.newest_decisions(without="2025-10") == ()
    with pytest.raises(LookupError, match="2024-01"):
        archive.newest_decisions(without="2024-01")
