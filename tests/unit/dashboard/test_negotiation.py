"""An offered price: who moves, what it saves, and the price at which a provider is first with a probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest
from tests.data.result_documents import document, provider, training_metrics, training_workload, trial

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.negotiation import HIGHEST, LEVELS, LOWEST, at_factor, make_offer, price_curve
from plumbline.archive import open_archive
from plumbline.declarations import Preference, Team, load
from plumbline.declarations.alerts import RentedVolume
from plumbline.workflows.current_results import decide_teams

DAY = date(2025, 11, 2)
STEPS = {"dear": 0.10, "cheap": 0.11}
"""Seconds of a step; both cost the same an hour, so that `cheap` is first once it is cheaper by about a tenth."""


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamDecision]:
    workload = training_workload()
    listed = [{"purchase": "on_demand", "price": "10 USD/h", "since": "2025-01-01", "source": "made up"}]
    places = [provider(name, prices=listed) for name in STEPS]
    weighs = Preference.model_validate({"workloads": (workload.name,), "weights": {"cost_per_1m_trained_tokens": 1.0}})
    with open_archive(f"sqlite:///{tmp_path_factory.mktemp('home') / 'archive.db'}") as archive:
        for place in places:
            for repeat in (1, 2, 3):
                metrics = training_metrics(STEPS[place.name] * (1 + 0.002 * repeat))
                archive.record(document(trial(where=place, repeat=repeat, workload=workload), metrics=metrics), uri="file:///store")
        known = replace(
            load(),
            providers={p.name: p for p in places},
            workloads={workload.name: workload},
            teams={"lab": Team(name="lab", training=weighs)},
        )
        yield decide_teams(archive, known, DAY)[0]


def price(decided: TeamDecision, name: str = "cheap") -> float:
    basis = decided.prices[name].basis
    assert basis is not None
    return basis.usd_per_hour


def test_the_walk_away_price_reaches_its_probability_and_a_little_more_does_not(decided: TeamDecision) -> None:
    now = price(decided)
    curve = price_curve(decided, "cheap", now)
    assert [(w.aim, w.probability) for w in curve.walk_away] == [(aim, level) for aim in ("first", "cheapest") for level in LEVELS]
    for w in curve.walk_away:
        assert w.usd_per_hour is not None and not w.open

        def chance(factor: float) -> float:
            found = next(r for r in at_factor(decided, "cheap", factor).decision.ranking if r.provider == "cheap")
            return found.probability_first or 0.0

        assert chance(w.usd_per_hour / now) >= w.probability > chance(1.02 * w.usd_per_hour / now)
    assert all(a >= b - 0.02 for a, b in zip(curve.first, curve.first[1:], strict=False)), "dearer is never likelier"


def test_a_provider_that_leads_at_every_price_has_an_open_walk_away(decided: TeamDecision) -> None:
    half = at_factor(decided, "dear", LOWEST / HIGHEST / 2)
    assert all(w.open for w in price_curve(half, "dear", price(half, "dear")).walk_away)


def test_an_offer_moves_the_choice_and_saves_at_the_declared_volumes(decided: TeamDecision) -> None:
    now = price(decided)
    volumes = [RentedVolume.model_validate({"provider": name, "time_per_month": "100h"}) for name in STEPS]
    offer = make_offer([decided], "cheap", now, 0.5 * now, volumes)
    answer = offer.teams[0]
    assert (answer.now.first, answer.offered.first, answer.moves, answer.moves_cost) == ("dear", "cheap", True, True)
    assert offer.kept_usd == pytest.approx(100 * now * 0.5)
    # The tokens of 100 h at `dear` take 110 h at `cheap`, at half the price.
    assert offer.switches[0].usd == pytest.approx(100 * now * (1 - 0.5 * 1.1), rel=1e-6)
    assert offer.saves == pytest.approx(offer.kept_usd + offer.switches[0].usd)


def test_todays_price_moves_and_saves_nothing(decided: TeamDecision) -> None:
    offer = make_offer([decided], "cheap", price(decided), price(decided), [])
    assert not offer.teams[0].moves and (offer.saves, offer.switches) == (0.0, ())
