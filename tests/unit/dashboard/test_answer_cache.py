"""What was worked out of decisions is kept exactly as long as nothing changes that it rests on, and many candidates stay a page."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.data.result_documents import document, provider, training_metrics, training_workload, trial

from plumbline.archive import Archive
from plumbline.dashboard.decision_query import PROVIDERS_SHOWN, compute_decision
from plumbline.dashboard.pages.decisions import decision_page
from plumbline.dashboard.sources import CACHED_ANSWERS, AnswerCache
from plumbline.declarations import Declarations, Preference, Team, load
from plumbline.presentation.decisions import decision_view

DAY = date(2025, 11, 2)


@pytest.fixture(scope="module")
def declared() -> Declarations:
    return load()


class Counted:
    """A question that says how often it was worked out."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_an_answer_is_worked_out_once_until_something_changes(archive: Archive, declared: Declarations) -> None:
    choices, made = AnswerCache(), Counted()

    def asked(on: date = DAY, known: Declarations = declared, what: Any = "a") -> int:
        return choices.get(archive, known, on, what, made)

    assert [asked(), asked()] == [1, 1]
    assert [asked(what="b"), asked(what="b"), asked()] == [2, 2, 1]
    archive.record(document(), uri="file:///store")
    assert [asked(), asked()] == [3, 3], "a new trial"
    archive.accept_price("lab", "on_demand", None, 2.0, DAY, "s", by="ada", why="new")
    assert [asked(), asked()] == [4, 4], "an accepted price"
    assert [asked(date(2025, 11, 3)), asked(date(2025, 11, 3))] == [5, 5], "another day"
    assert asked(date(2025, 11, 3), replace(declared)) == 6, "declarations that were read anew"


def test_only_so_many_answers_are_kept(archive: Archive, declared: Declarations) -> None:
    choices, made = AnswerCache(), Counted()
    for n in range(CACHED_ANSWERS + 1):
        choices.get(archive, declared, DAY, n, made)
    assert choices.get(archive, declared, DAY, CACHED_ANSWERS, made) == CACHED_ANSWERS + 1, "the newest is there"
    assert choices.get(archive, declared, DAY, 0, made) == CACHED_ANSWERS + 2, "the oldest is not"


def test_of_many_candidates_the_first_are_shown_and_the_others_counted(archive: Archive, declared: Declarations) -> None:
    places = [provider(f"lab-{n:02d}") for n in range(PROVIDERS_SHOWN + 3)]
    workload = training_workload()
    for n, place in enumerate(places):
        for repeat in (1, 2):
            step = 0.1 + 0.01 * n + 0.001 * repeat
            archive.record(
                document(trial(where=place, repeat=repeat, workload=workload), metrics=training_metrics(step)), uri="file:///store"
            )
    weighs = Preference.model_validate({"workloads": (workload.name,), "weights": {"step_time": 0.6, "tokens_per_second": 0.4}})
    known = replace(
        declared,
        providers={p.name: p for p in places},
        workloads={workload.name: workload},
        teams={"lab": Team(name="lab", training=weighs)},
    )
    asked = compute_decision(archive, known, DAY, "lab", "training")
    page, found = decision_page(asked), decision_view(asked.decided, (), asked.near)
    first = [f"lab-{n:02d}" for n in range(PROVIDERS_SHOWN)]
    assert asked.more == 3 and len(page.view.rows) == len(page.trials) == PROVIDERS_SHOWN
    assert [r["provider"] for r in found["ranking"]] == first
    assert {s["provider"] for s in found["price_swings"]} == set(first)
