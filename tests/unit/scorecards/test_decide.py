"""Decisions: properties that must hold for any numbers, and cases worked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.declarations import METRICS, Preference, Price, Provider
from plumbline.scorecards import Number, TrialNumbers, decide, priced

METRIC_NAMES = ("time_to_first_token", "output_token_throughput", "error_rate", "cost_per_1k_requests")


def number(metric: str, value: float) -> Number:
    known = METRICS[metric]
    return Number("steady", metric, known.statistic, value, known.unit, known.direction, 90)


def repeats(provider: str, *numbers: dict[str, float], workload: str = "chat") -> list[TrialNumbers]:
    return [
        TrialNumbers(
            f"{provider}.{workload}.r{i}",
            provider,
            "inference",
            workload,
            1,
            "valid",
            "02:00",
            i,
            None,
            tuple(number(m, v) for m, v in found.items()),
        )
        for i, found in enumerate(numbers, start=1)
    ]


def preference(weights: dict[str, float], *gates: str, workloads: tuple[str, ...] = ("chat",)) -> Preference:
    return Preference.model_validate({"workloads": workloads, "weights": weights, "gates": gates})


positive = st.floats(min_value=1e-3, max_value=1e3)
share = st.floats(min_value=0.0, max_value=0.5)
numbers = st.fixed_dictionaries(
    {"time_to_first_token": positive, "output_token_throughput": positive, "error_rate": share, "cost_per_1k_requests": positive}
)
field = st.lists(st.lists(numbers, min_size=2, max_size=3), min_size=2, max_size=4)
raw_weights = st.lists(st.floats(min_value=0.01, max_value=1.0), min_size=4, max_size=4)


def weighted(raw: list[float]) -> dict[str, float]:
    return {name: w / sum(raw) for name, w in zip(METRIC_NAMES, raw, strict=True)}


def trials_of(measured: list[list[dict[str, float]]]) -> list[TrialNumbers]:
    return [t for i, found in enumerate(measured) for t in repeats(f"p{i}", *found)]


@settings(max_examples=60, deadline=None)
@given(field, raw_weights, st.sampled_from(METRIC_NAMES), st.floats(min_value=0.05, max_value=0.9))
def test_more_weight_on_a_metric_never_lowers_the_provider_that_is_best_on_it(
    measured: list[list[dict[str, float]]], raw: list[float], metric: str, shift: float
) -> None:
    trials = trials_of(measured)
    weights = weighted(raw)
    before = decide("t", "inference", preference(weights), trials, draws=1)
    j = next(i for i, c in enumerate(before.columns) if c.metric == metric)
    best = [r.provider for r in before.ranking if r.ratios is not None and r.ratios[j] == 1.0]
    heavier = {m: (1 - shift) * w + (shift if m == metric else 0.0) for m, w in weights.items()}
    after = decide("t", "inference", preference(heavier), trials, draws=1)
    for provider in best:
        behind = {r.provider for r in before.ranking if (r.score or 0) < _score(before, provider) * (1 - 1e-9)}
        assert all((_score(after, other)) <= _score(after, provider) * (1 + 1e-9) for other in behind)


def _score(decision: object, provider: str) -> float:
    return next(r.score for r in decision.ranking if r.provider == provider)  # type: ignore[attr-defined,no-any-return]


@settings(max_examples=60, deadline=None)
@given(field, raw_weights, st.floats(min_value=0.01, max_value=100))
def test_scaling_all_prices_never_changes_the_ranking(measured: list[list[dict[str, float]]], raw: list[float], factor: float) -> None:
    scaled = [[{**found, "cost_per_1k_requests": found["cost_per_1k_requests"] * factor} for found in group] for group in measured]
    before = decide("t", "inference", preference(weighted(raw)), trials_of(measured), draws=1)
    after = decide("t", "inference", preference(weighted(raw)), trials_of(scaled), draws=1)
    for r in before.ranking:
        assert r.score == pytest.approx(_score(after, r.provider), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(field, raw_weights, st.lists(numbers, min_size=2, max_size=2))
def test_dropping_an_ineligible_provider_never_changes_the_others(
    measured: list[list[dict[str, float]]], raw: list[float], outsider: list[dict[str, float]]
) -> None:
    hopeless = [{**found, "error_rate": 0.9} for found in outsider]
    gate = "error_rate <= 60% in steady"
    trials = trials_of(measured)
    with_it = decide("t", "inference", preference(weighted(raw), gate), [*trials, *repeats("hopeless", *hopeless)], draws=50)
    without = decide("t", "inference", preference(weighted(raw), gate), trials, draws=50)
    kept = [r for r in with_it.ranking if r.provider != "hopeless"]
    assert [(r.provider, r.score, r.probability_first) for r in kept] == [
        (r.provider, r.score, r.probability_first) for r in without.ranking
    ]
    assert with_it.ranking[-1].why_not == ('gate "error_rate <= 60% in steady" on chat is not met',)


def test_a_score_worked_by_hand() -> None:
    decision = decide(
        "t",
        "inference",
        preference({"time_to_first_token": 0.5, "output_token_throughput": 0.5}),
        [
            *repeats("quick", {"time_to_first_token": 0.1, "output_token_throughput": 50}),
            *repeats("wide", {"time_to_first_token": 0.4, "output_token_throughput": 100}),
        ],
    )
    # quick: (1 × 0.5)^½ = 0.7071; wide: (0.25 × 1)^½ = 0.5
    assert [(r.provider, round(r.score or 0, 4), r.ratios) for r in decision.ranking] == [
        ("quick", 0.7071, (1.0, 0.5)),
        ("wide", 0.5, (0.25, 1.0)),
    ]
    assert decision.ranking[0].probability_first is None
    assert "1 usable repeat" in decision.note


def test_a_share_of_failures_is_valued_by_what_did_not_fail() -> None:
    decision = decide(
        "t",
        "inference",
        preference({"error_rate": 1.0}),
        [*repeats("a", {"error_rate": 0.0}), *repeats("b", {"error_rate": 0.01})],
    )
    assert decision.ranking[1].score == pytest.approx(0.99)


def test_a_clear_lead_is_surer_than_a_narrow_one_and_neither_is_certain() -> None:
    def chance(*other: float) -> float:
        trials = [
            *repeats("a", *({"time_to_first_token": v} for v in (0.100, 0.104))),
            *repeats("b", *({"time_to_first_token": v} for v in other)),
        ]
        first = decide("t", "inference", preference({"time_to_first_token": 1.0}), trials).ranking[0]
        assert first.provider == "a"
        assert first.probability_first is not None
        return first.probability_first

    clear, narrow = chance(0.200, 0.208), chance(0.103, 0.107)
    assert 0.9 < clear < 1.0
    assert 0.5 < narrow < 0.85


def test_the_probabilities_are_seeded_and_sum_to_one() -> None:
    trials = [
        *repeats("a", *({"time_to_first_token": v} for v in (0.1, 0.2))),
        *repeats("b", *({"time_to_first_token": v} for v in (0.12, 0.18))),
    ]
    one, two = (decide("t", "inference", preference({"time_to_first_token": 1.0}), trials) for _ in range(2))
    assert one == two
    assert sum(r.probability_first or 0 for r in one.ranking) == pytest.approx(1.0)


def test_fewer_than_two_eligible_is_said() -> None:
    weights = {"time_to_first_token": 1.0}
    a, b = repeats("a", {"time_to_first_token": 0.1}), repeats("b", {"output_token_throughput": 5.0})
    alone = decide("t", "inference", preference(weights), [*a, *b])
    assert alone.winner is None
    assert alone.note == "Only a is eligible: there is nothing to choose between."
    assert alone.ranking[1].why_not == ("time_to_first_token on chat was not measured",)
    assert decide("t", "inference", preference(weights), b).note.startswith("No provider is eligible")
    assert decide("t", "inference", preference(weights), []).note == "No provider ran this team's workloads."
    assert decide("t", "training", preference(weights), a).ranking == ()


def test_a_free_provider_and_a_metric_of_zero_do_not_break_the_score() -> None:
    free = decide(
        "t",
        "inference",
        preference({"cost_per_1k_requests": 0.5, "time_to_first_token": 0.5}),
        [
            *repeats("free", {"cost_per_1k_requests": 0.0, "time_to_first_token": 0.2}),
            *repeats("paid", {"cost_per_1k_requests": 3.0, "time_to_first_token": 0.1}),
        ],
    )
    assert [r.provider for r in free.ranking] == ["free", "paid"]
    assert all(0 < (r.score or 0) <= 1 for r in free.ranking)


def test_unusable_trials_take_no_part() -> None:
    a = repeats("a", {"time_to_first_token": 0.1}, {"time_to_first_token": 0.1})
    b = repeats("b", {"time_to_first_token": 0.2}, {"time_to_first_token": 0.0001})
    decision = decide("t", "inference", preference({"time_to_first_token": 1.0}), [*a, b[0], replace(b[1], status="invalid")])
    assert decision.ranking[0].provider == "a"


def test_a_price_change_rescores_old_trials() -> None:
    def provider(name: str, *prices: tuple[str, date, date | None]) -> Provider:
        return Provider.model_validate(
            {
                "name": name,
                "cloud": "c",
                "region": "r",
                "instance_type": "i",
                "accelerator": {"kind": "cpu", "count": 1},
                "launcher": {"kind": "local", "cpus": (0,)},
                "prices": tuple(
                    Price.model_validate({"purchase": "on_demand", "price": p, "since": s, "until": u, "source": "list"})
                    for p, s, u in prices
                ),
            }
        )

    cut = date(2026, 6, 1)
    providers = {
        "a": provider("a", ("4 USD/h", date(2026, 1, 1), None)),
        "b": provider("b", ("8 USD/h", date(2026, 1, 1), cut), ("2 USD/h", cut, None)),
        "c": provider("c"),
    }
    trials = [t for name in providers for t in repeats(name, {"request_throughput": 10.0}, {"request_throughput": 10.0})]
    wanted = preference({"cost_per_1k_requests": 1.0})

    def winner(on: date) -> str:
        return decide("t", "inference", wanted, priced(trials, providers, on)).ranking[0].provider

    assert winner(date(2026, 5, 31)) == "a"
    assert winner(cut) == "b"
    unpriced = decide("t", "inference", wanted, priced(trials, providers, cut)).ranking[-1]
    assert (unpriced.provider, unpriced.eligible) == ("c", False)
    again = priced(priced(trials, providers, date(2026, 5, 31)), providers, cut)
    assert again == priced(trials, providers, cut)
