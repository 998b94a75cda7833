"""What the report says of the losses of repeats."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.data.result_documents import document, provider, trial
from tests.golden import Golden

from plumbline.analysis.campaign_data import CampaignData
from plumbline.presentation.limits import same_losses
from plumbline.results import Reproducibility, ResultDocument


def repeat(losses: str | None) -> ResultDocument:
    hashes = {"data": "d"} if losses is None else {"data": "d", "losses": losses}
    return document(trial("training"), reproducibility=Reproducibility(seeds={}, hashes=hashes, replay_command="again"))


def said(*losses: str | None) -> tuple[str, ...]:
    documents = tuple(repeat(one) for one in losses)
    return same_losses(
        CampaignData("2025-11", "a test", documents, {"lab-2core": provider()}, {}, datetime(2025, 11, 2, tzinfo=timezone.utc))
    )


def test_it_says_whether_repeats_learned_the_same(golden: Golden) -> None:
    golden("presentation.losses", "\n".join(f"{losses}: {', '.join(said(*losses))}" for losses in ("aaa", "aba", "ab")))


def test_one_repeat_and_documents_without_losses_say_nothing() -> None:
    assert said("a") == said("a", None) == said(None, None) == ()
