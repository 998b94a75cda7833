"""Decisions: properties that must hold for any numbers, and cases worked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.decision_trials import (
    METRIC_NAMES,
    field,
    numbers,
    positive,
    preference,
    raw_weights,
    repeats,
    trials_of,
    value_functions,
    weighted,
    with_sweep,
)
from tests.data.plain_rows import plain_row
from tests.golden import Golden

from plumbline.analysis.cost.bill import Bill, Item, Line, Quantity, UnitPrice
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Price, Provider
from plumbline.words.decisions import note_text, why_not_texts


@settings(max_examples=80, deadline=None)
@given(field, raw_weights, value_functions, st.sampled_from(METRIC_NAMES), st.floats(min_value=0.05, max_value=0.9))
def test_more_weight_on_a_metric_never_lowers_the_provider_that_is_best_on_it(
    measured: list[list[dict[str, float]]], raw: list[float], values: dict[str, object], metric: str, shift: float
) -> None:
    trials = trials_of(measured)
    weights = weighted(raw)
    before = decide("t", "inference", preference(weights, values=values), trials, draws=0)
    j = next(i for i, c in enumerate(before.columns) if c.metric == metric)
    most = max(r.ratios[j] for r in before.ranking if r.ratios is not None)
    best = [r.provider for r in before.ranking if r.ratios is not None and r.ratios[j] == most]
    heavier = {m: (1 - shift) * w + (shift if m == metric else 0.0) for m, w in weights.items()}
    after = decide("t", "inference", preference(heavier, values=values), trials, draws=0)
    for provider in best:
        behind = {r.provider for r in before.ranking if (r.score or 0) < _score(before, provider) * (1 - 1e-9)}
        assert all((_score(after, other)) <= _score(after, provider) * (1 + 1e-9) for other in behind)


def _score(decision: Decision, provider: str) -> float:
    return next(r.score or 0.0 for r in decision.ranking if r.provider == provider)


@settings(max_examples=60, deadline=None)
@given(field, raw_weights, value_functions, st.floats(min_value=0.01, max_value=100))
def test_scaling_all_prices_never_changes_the_ranking(
    measured: list[list[dict[str, float]]], raw: list[float], values: dict[str, object], factor: float
) -> None:
    scaled = [[{**found, "cost_per_1k_requests": found["cost_per_1k_requests"] * factor} for found in group] for group in measured]
    wanted = preference(weighted(raw), values=values)
    before = decide("t", "inference", wanted, trials_of(measured), draws=40)
    after = decide("t", "inference", wanted, trials_of(scaled), draws=40)
    for r in before.ranking:
        assert r.score == pytest.approx(_score(after, r.provider), rel=1e-6)
        again = next(a.probability_first for a in after.ranking if a.provider == r.provider)
        assert r.probability_first == pytest.approx(again, abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(positive, positive, st.floats(min_value=0.0, max_value=100.0)), min_size=2, max_size=4),
    st.sampled_from([0.2, 0.5, 3.0, 40.0]),
)
def test_scaling_every_line_of_every_bill_never_changes_the_ranking(offers: list[tuple[float, float, float]], factor: float) -> None:
    """Bills of several lines: a GPU by the hour, storage, and egress that only some have."""

    def bill(hourly: float, egress: float, by: float) -> float:
        def line(item: Item, quantity: Quantity, price: float) -> Line:
            return Line(item, quantity, UnitPrice(round(price * by, 9), "USD", quantity.unit), "list", "a test", None)

        lines = (line("gpu", Quantity(3.5, "h"), hourly), line("storage", Quantity(200.0, "GB-month"), 0.08))
        total = Bill((*lines, line("egress", Quantity(egress, "GB"), 0.09))).total
        assert total is not None
        return total.amount

    def scores(by: float) -> dict[str, float]:
        trials = [
            t
            for i, (hourly, latency, egress) in enumerate(offers)
            for t in repeats(f"p{i}", {"time_to_first_token": latency, "cost_per_1k_requests": bill(hourly, egress, by)})
        ]
        wanted = preference(
            {"time_to_first_token": 0.4, "cost_per_1k_requests": 0.6}, values={"cost_per_1k_requests": {"worst": "50x best"}}
        )
        return {r.provider: r.score or 0.0 for r in decide("t", "inference", wanted, trials, draws=0).ranking}

    before, after = scores(1.0), scores(factor)
    # Unit prices have nine decimals here: who is equal up to that may change places.
    assert all(after[p] > after[q] for p in before for q in before if before[p] > before[q] * 1.01)


@settings(max_examples=40, deadline=None)
@given(field, raw_weights, value_functions, st.lists(numbers, min_size=2, max_size=2))
def test_dropping_an_ineligible_provider_never_changes_the_others(
    measured: list[list[dict[str, float]]], raw: list[float], values: dict[str, object], outsider: list[dict[str, float]]
) -> None:
    hopeless = [{**found, "error_rate": 0.9} for found in outsider]
    wanted = preference(weighted(raw), "error_rate <= 60% in steady", values=values)
    trials = trials_of(measured)
    with_it = decide("t", "inference", wanted, [*trials, *repeats("hopeless", *hopeless)], draws=50)
    without = decide("t", "inference", wanted, trials, draws=50)
    kept = [r for r in with_it.ranking if r.provider != "hopeless"]
    assert [(r.provider, r.score, r.probability_first) for r in kept] == [
        (r.provider, r.score, r.probability_first) for r in without.ranking
    ]
    last = with_it.ranking[-1]
    assert [gate.passed for gate in last.gates] == [False] and len(last.why_not) == 1 and last.gates[0].text in why_not_texts(last)[0]


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
    assert decision.ranking[0].n == 1


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


def test_linear_values_worked_by_hand(golden: Golden) -> None:
    decision = decide(
        "t",
        "inference",
        preference(
            {"time_to_first_token": 0.5, "cost_per_1k_requests": 0.5},
            values={"time_to_first_token": {"worst": "2s", "best": "200ms"}, "cost_per_1k_requests": {"worst": "3x best"}},
        ),
        [
            *repeats("quick", {"time_to_first_token": 0.1, "cost_per_1k_requests": 4.0}),
            *repeats("cheap", {"time_to_first_token": 1.1, "cost_per_1k_requests": 2.0}),
            *repeats("late", {"time_to_first_token": 2.5, "cost_per_1k_requests": 2.0}),
        ],
    )
    # quick: below 200 ms is 1; 4 of 2 USD is twice the best, halfway to three times. cheap: 1.1 s is halfway between 200 ms and 2 s.
    assert {r.provider: tuple(round(v, 6) for v in r.ratios or ()) for r in decision.ranking} == {
        "quick": (1.0, 0.5),
        "cheap": (0.5, 1.0),
        "late": (0.001, 1.0),
    }
    assert decision.ranking[0].score == pytest.approx(0.5**0.5)
    golden("analysis.value_functions", "\n".join(c.valued for c in decision.columns))


def test_fewer_than_two_eligible_is_said(golden: Golden) -> None:
    weights = {"time_to_first_token": 1.0}
    a, b = repeats("a", {"time_to_first_token": 0.1}), repeats("b", {"output_token_throughput": 5.0})
    alone = decide("t", "inference", preference(weights), [*a, *b])
    assert alone.winner is None
    assert [(r.provider, r.eligible) for r in alone.ranking] == [("a", True), ("b", False)]
    nobody, nothing = (decide("t", "inference", preference(weights), trials) for trials in (b, []))
    assert nobody.first is nothing.first is None
    golden(
        "analysis.decision_notes",
        "\n".join([note_text(alone.note), *why_not_texts(alone.ranking[1]), note_text(nobody.note), note_text(nothing.note)]),
    )
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


def _priced(name: str, *prices: tuple[str, date, date | None]) -> Provider:
    return Provider.model_validate(
        {
            "name": name,
            "cloud": "c",
            "region": "r",
            "instance_type": "i",
            "accelerator": {"kind": "cpu", "count": 1},
            "launcher": {"kind": "local", "cpus": (0,)},
            "prices": tuple(
                Price.model_validate({"purchase": "on_demand", "price": p, "since": s, "until": u, "source": "list"}) for p, s, u in prices
            ),
        }
    )


def test_a_price_change_rescores_old_trials() -> None:
    cut = date(2026, 6, 1)
    providers = {
        "a": _priced("a", ("4 USD/h", date(2026, 1, 1), None)),
        "b": _priced("b", ("8 USD/h", date(2026, 1, 1), cut), ("2 USD/h", cut, None)),
        "c": _priced("c"),
    }
    trials = [with_sweep(t, 10.0) for name in providers for t in repeats(name, {}, {})]
    wanted = preference({"cost_per_1k_requests": 1.0})

    def winner(on: date) -> str:
        return decide("t", "inference", wanted, with_costs(trials, providers, on)).ranking[0].provider

    assert winner(date(2026, 5, 31)) == "a"
    assert winner(cut) == "b"
    unpriced = decide("t", "inference", wanted, with_costs(trials, providers, cut)).ranking[-1]
    assert (unpriced.provider, unpriced.eligible) == ("c", False)
    again = with_costs(with_costs(trials, providers, date(2026, 5, 31)), providers, cut)
    assert again == with_costs(trials, providers, cut)


def test_finance_ranks_the_provider_first_that_is_cheaper_to_pay_not_the_one_whose_disk_is_slow() -> None:
    """Both step at 3,000 tokens/s. slow-disk costs 10 % less an hour and stands still for 17.1 s after every 29.1 s; quick-disk for 1.7 s."""
    tokens = 29.1 * 3000

    def measured(provider: str, blocking_s: float) -> list[TrialSample]:
        rates = {("tokens_per_second", "median"): 3000.0, ("effective_tokens_per_second", "mean"): tokens / (29.1 + blocking_s)}
        return [
            TrialSample(
                f"{provider}.{i}", provider, "training", "gpt", 1, "valid", "02:00", i, date(2026, 11, 1),
                tuple(plain_row("steady", m, s, v * scatter, "tokens/s", "higher_is_better", 90) for (m, s), v in rates.items()),
            )
            for i, scatter in enumerate((0.999, 1.0, 1.001), start=1)
        ]  # fmt: skip

    providers = {name: _priced(name, (f"{usd} USD/h", date(2026, 1, 1), None)) for name, usd in (("slow-disk", 3.15), ("quick-disk", 3.50))}
    trials = with_costs((*measured("slow-disk", 17.1), *measured("quick-disk", 1.7)), providers, date(2026, 11, 2))
    finance = preference({"cost_per_1m_trained_tokens": 1.0}, workloads=("gpt",))
    first, second = decide("finance", "training", finance, trials).ranking
    assert (first.provider, second.provider) == ("quick-disk", "slow-disk")
    assert first.probability_first is not None
    assert first.probability_first > 0.95
    # 3.50 / 3600 / 3000 × 1e6 × (29.1 + 1.7) / 29.1, and 3.15 / 3600 / 3000 × 1e6 × (29.1 + 17.1) / 29.1
    assert (first.values[0], second.values[0]) == (pytest.approx(0.343006, abs=1e-6), pytest.approx(0.463058, abs=1e-6))
