"""A stored decision reads back as the live one; older shapes are read as far as they go, and what cannot be read is named and left out."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, spread, world

from plumbline.analysis.decisions.decision_record import read_decision, read_decisions
from plumbline.answers.current_results import decide_teams
from plumbline.archive import DecisionView, open_archive
from plumbline.words.decision_record import decision_detail, decision_document
from plumbline.words.decisions import first_sentence

AT = datetime(2025, 12, 2, tzinfo=timezone.utc)


def row(detail: dict[str, Any], winner: str | None = FAST, decision_id: str = "d1") -> DecisionView:
    return DecisionView(decision_id, "platform", "training", winner, 0.91, detail, AT)


def test_what_is_stored_is_what_was_decided(tmp_path: Path) -> None:
    declared = world()
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        decided = next(d for d in decide_teams(archive, declared, AT.date()) if d.decision.ranking)
    live = decision_document(decided)
    stored = read_decision(row(json.loads(json.dumps(decision_detail(live)))))
    assert stored == replace(live, decision_id="d1", decided_at=AT)
    assert first_sentence(stored) == first_sentence(live) == first_sentence(decided.decision)
    assert stored.as_previous.first == live.first_name and stored.question == live.question and live.prices[CHEAP].usd_per_hour == 1.0


def test_an_older_decision_is_read_as_far_as_it_goes() -> None:
    partial = {
        "workloads": ["gpt-1b"],
        "ranking": [{"provider": FAST, "eligible": True, "probability_first": 0.91}, {"provider": CHEAP, "eligible": False}],
        "inputs": {"question": "q1", "trials": "t1", "costs": "c1"},
        "prices": {FAST: {"usd_per_unit": 2.29, "unit": "GPU-hour", "since": "2026-11-20"}},
        "campaigns": {FAST: ["2026-11"]},
        "why": None,
        "a key of another version": 1,
    }
    read = read_decision(row(partial))
    assert read is not None and read.choice == ("platform", "training", ("gpt-1b",)) and first_sentence(read).startswith(FAST)
    assert read.prices[FAST].usd_per_unit == 2.29 and read.campaigns == {FAST: ("2026-11",)} and read.day is None and read.why == ""
    alone = read_decision(row({"scores": [1, 2]}))
    assert alone is not None and (alone.first_name, alone.probability) == (FAST, 0.91) and alone.question is None
    nobody = read_decision(row({}, winner=None))
    assert nobody is not None and nobody.first_name is None


def test_one_that_cannot_be_read_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read = read_decisions([row({"ranking": ["lab-1core"]}, decision_id="broken"), row({})])
    assert [d.decision_id for d in read] == ["d1"]
    (warning,) = caplog.messages
    assert "broken" in warning and "ranking.0" in warning
