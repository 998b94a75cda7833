"""What the report says of the losses of repeats."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.data.result_documents import document, provider, trial

from plumbline.analysis.campaign_data import CampaignData
from plumbline.presentation.summary import same_losses
from plumbline.results import Reproducibility, ResultDocument


def repeat(losses: str | None) -> ResultDocument:
    hashes = {"data": "d"} if losses is None else {"data": "d", "losses": losses}
    return document(trial("training"), reproducibility=Reproducibility(seeds={}, hashes=hashes, replay_command="again"))


def said(*losses: str | None) -> tuple[str, ...]:
    documents = tuple(repeat(one) for one in losses)
    return same_losses(
        CampaignData("2025-11", "a test", documents, {"lab-2core": provider()}, {}, datetime(2025, 11, 2, tzinfo=timezone.utc))
    )


def test_repeats_that_learned_the_same() -> None:
    (line,) = said("a", "a", "a")
    assert line.startswith("gpt-test on lab-2core") and "all 3 repeats are bitwise identical" in line


def test_repeats_that_did_not() -> None:
    (line,) = said("a", "b", "a")
    assert "3 repeats differ, 2 of them" in line
    (line,) = said("a", "b")
    assert "no two" in line


def test_one_repeat_and_documents_without_losses_say_nothing() -> None:
    assert said("a") == said("a", None) == said(None, None) == ()
