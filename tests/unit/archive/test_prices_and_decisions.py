"""Prices and decisions are stored once."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from plumbline.archive import Archive, DecisionRecord, PriceRecord

PRICE = PriceRecord("lab-2core", "on_demand", 0.04, date(2025, 1, 1), None, "contract 7")
RANKING = DecisionRecord("d1", "platform", "training", "lab-2core", 0.91, {"ranking": ["lab-2core", "lab-1core"]})


def test_a_price_seen_again_is_not_new(archive: Archive) -> None:
    dearer = replace(PRICE, usd_per_hour=0.05, since=date(2025, 6, 1))
    assert archive.save_prices([PRICE]) == (PRICE,)
    assert archive.save_prices([PRICE, dearer]) == (dearer,)
    first, second = archive.prices("lab-2core")
    assert (first.usd_per_hour, first.since, first.until) == (0.04, date(2025, 1, 1), None)
    assert first.last_seen_at > first.first_seen_at and second.first_seen_at == second.last_seen_at
    assert archive.prices("other") == [] and len(archive.prices()) == 2


def test_a_decision_from_the_same_inputs_is_stored_once(archive: Archive) -> None:
    assert archive.save_decision(RANKING)
    assert not archive.save_decision(replace(RANKING, winner="lab-1core"))
    assert archive.save_decision(replace(RANKING, decision_id="d2", kind="inference", winner=None, probability=None))
    assert [(d.decision_id, d.winner) for d in archive.decisions()] == [("d2", None), ("d1", "lab-2core")]
    assert [d.detail for d in archive.decisions(team="platform", kind="training")] == [RANKING.detail]
    assert archive.decisions(team="product") == []
