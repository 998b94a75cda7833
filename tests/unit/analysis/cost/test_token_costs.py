"""What a hosted model bills, against figures that were computed by hand, and its place beside an instance paid by the hour."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.decision_trials import preference
from tests.data.plain_rows import plain_row
from tests.unit.analysis.cost.test_trial_bill import USE

from plumbline.analysis.cost.bill import Bill
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.cost.token_costs import token_costs
from plumbline.analysis.cost.trial_bill import trial_bill
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.prices.book import quote
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Provider
from plumbline.metrics.rows import MetricRow
from plumbline.results.token_usage import TokenUsage, bucket

ON = date(2026, 11, 15)
PAGE = {"since": "2026-11-01", "source": "price page, 2026-11-01"}
RATE = {
    **PAGE,
    "input": "2.00 USD/1M tokens",
    "cached_input": "0.50 USD/1M tokens",
    "output": "8.00 USD/1M tokens",
    "request": "5.00 USD/1k requests",
    "tiers": [{"above": 200000, "input": "4.00 USD/1M tokens", "output": "12.00 USD/1M tokens"}],
}
ENDPOINT = {"kind": "endpoint", "url": "https://api.example.com/v1", "protocol": "openai", "model": "m"}


def provider(name: str = "api", **changed: Any) -> Provider:
    place = {"name": name, "cloud": "c", "region": "r", "instance_type": "x", "accelerator": {"kind": "nvidia", "count": 1}}
    return Provider.model_validate_json(json.dumps({**place, "launcher": ENDPOINT, "token_prices": [RATE], **changed}))


def usage(above: int = 0, phase: Any = "steady", requests: int = 1000, **changed: Any) -> TokenUsage:
    counts = {"input_tokens": 1_000_000, "cached_tokens": 400_000, "output_tokens": 100_000, **changed}
    return TokenUsage(phase=phase, above=above, requests=requests, **counts)


def bill(*rows: TokenUsage, place: Provider | None = None, usable: bool = True) -> Bill:
    use = {**USE.__dict__, "tokens": rows, "usable": usable, "evidence_bytes": 0, "egress_bytes": 0}
    return trial_bill(type(USE)(**use), place or provider(), ON)


def test_input_cached_input_output_and_requests_by_hand() -> None:
    # 0.6 M at 2 + 0.4 M at 0.5 + 0.1 M at 8 + 1,000 at 0.005 = 1.2 + 0.2 + 0.8 + 5.
    found = bill(usage())
    assert [(line.what, str(line.quantity), str(line.cost)) for line in found.lines] == [
        ("input", "0.6 M-token", "1.20 USD"),
        ("cached input", "0.4 M-token", "0.20 USD"),
        ("output", "0.1 M-token", "0.80 USD"),
        ("requests", "1,000 request", "5.00 USD"),
    ]
    assert {line.item for line in found.lines} == {"hosted"}
    assert {(line.basis, line.source) for line in found.lines} == {("list", "price page, 2026-11-01")}
    assert str(found.total) == "7.20 USD"
    assert {line.item for line in bill(usage(), usable=False).lines} == {"failed_launches"}


def test_a_long_prompt_is_billed_by_its_tier_as_a_whole() -> None:
    # Without a cached price of its own: 1 M at 4 + 0.1 M at 12, and ten requests at 0.005.
    assert str(bill(usage(200_000, requests=10)).total) == "5.25 USD"
    assert str(bill(usage(199_680, requests=10)).total) == "2.25 USD"
    assert [bucket(n) for n in (0, 1, 1000, 1001, 1024, 1025, 200_000, 200_001, 204_800)] == [
        *(0, 0, 0, 1000, 1000, 1024, 199_680, 200_000, 204_000)
    ]


def test_what_was_not_counted_is_unknown_and_never_free() -> None:
    found = bill(usage(uncounted=3))
    assert any("3 answered requests" in each.reason for each in found.unknown if each.item == "hosted")
    assert {each.item for each in bill().unknown} >= {"hosted"}
    assert bill().lines == ()
    unsaid = bill(usage(cached_tokens=None))
    assert any(each.item == "hosted" for each in unsaid.unknown)
    assert str(unsaid.total) == "7.80 USD"
    late = provider(token_prices=[{**RATE, "since": "2026-12-01"}])
    assert any("2026-11-15" in each.reason for each in bill(usage(), place=late).unknown)
    by_request = provider(token_prices=[{**PAGE, "request": "0.50 USD/1k requests"}])
    assert str(bill(usage(uncounted=1000), place=by_request).total) == "1.00 USD", "each answered request, counted or not"


def measured(**rates: float) -> tuple[MetricRow, ...]:
    values = {"request_throughput": 10.0, "goodput": 8.0, "output_token_throughput": 1000.0, "error_rate": 0.0, **rates}
    return tuple(
        plain_row(phase, name, "value", value, "1/s", "higher_is_better", 100)
        for phase in ("steady", "sweep")
        for name, value in values.items()
    )


def trial(name: str, repeat: int, *, tokens: tuple[TokenUsage, ...] = (), metrics: tuple[MetricRow, ...] = ()) -> TrialSample:
    about = {"kind": "inference", "workload": "chat", "version": 1, "status": "valid", "slot": "02:00", "repeat": repeat, "started": ON}
    return TrialSample(trial_id=f"{name}-{repeat}", provider=name, held_s=3600.0, usage=tokens, metrics=metrics or measured(), **about)  # type: ignore[arg-type]


def test_costs_of_outcomes_by_hand() -> None:
    found = {c.metric: c for c in token_costs(provider(), ON, [usage(), usage(phase="warmup", requests=0)], trial("api", 0).value)}
    for name, value in (
        ("cost_per_1k_requests", 7.20),
        ("cost_per_1m_input_tokens", 7.20),
        ("cost_per_1m_output_tokens", 72.0),
        ("cost_per_good_request", 0.009),
    ):
        assert found[name].value == pytest.approx(value)
        assert found[f"{name}_at_offered_rate"].value == pytest.approx(value), "no rate makes it cheaper"
    assert found["cost_per_run"].value == pytest.approx(7.20 + 2.20)
    none = {c.metric: c for c in token_costs(provider(), ON, [], trial("api", 0).value)}
    assert all(cost.value is None and cost.reason for cost in none.values())
    assert quote(provider(), ON).basis is None


def test_a_decision_ranks_a_hosted_model_beside_an_instance_by_the_hour() -> None:
    own = provider("own", token_prices=[], prices=[{"purchase": "on_demand", "price": "36 USD/h", "since": "2026-01-01", "source": "list"}])
    sweep = plain_row("sweep", "highest_sustained_rate", "value", 10.0, "1/s", "higher_is_better", 5)
    trials = [trial("own", k, metrics=(*measured(), sweep)) for k in range(3)] + [trial("api", k, tokens=(usage(),)) for k in range(3)]
    wanted = preference({"cost_per_1k_requests": 1.0})

    def first(**prices: str) -> tuple[str, float | None]:
        api = provider(token_prices=[{**RATE, **prices}])
        priced = with_costs(trials, {"own": own, "api": api}, ON)
        costs = {t.provider: t.value("cost_per_1k_requests", "value", "sweep") for t in priced}
        assert costs["own"] == pytest.approx(1.0), "36 USD/h at 10 requests/s"
        return decide("t", "inference", wanted, priced, draws=0).ranking[0].provider, costs["api"]

    assert first() == ("own", pytest.approx(7.2))
    cheap = {
        "input": "0.10 USD/1M tokens",
        "cached_input": "0.10 USD/1M tokens",
        "output": "0.40 USD/1M tokens",
        "request": "0.01 USD/1k requests",
    }
    assert first(**cheap) == ("api", pytest.approx(0.15))
    hosted_alone = with_costs([t for t in trials if t.provider == "api"], {"api": provider()}, ON)
    assert decide("t", "inference", wanted, hosted_alone, draws=0).cannot_tell is None, "its costs need no sweep"
    finished = {
        t.provider: t.value("cost_per_finished_run", "value", "steady") for t in with_costs(trials, {"own": own, "api": provider()}, ON)
    }
    assert finished == {"own": pytest.approx(36.0), "api": pytest.approx(7.2)}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"output": None}, "expected both"),
        ({"input": None, "output": None, "cached_input": None, "tiers": [], "request": None}, "request: 0.50"),
        ({"input": None, "output": None, "tiers": []}, "cached_input or tiers"),
        ({"tiers": [{**RATE["tiers"][0], "above": 1500}]}, "multiple of 1,000 or 1,024"),  # type: ignore[index]
        ({"tiers": [RATE["tiers"][0], RATE["tiers"][0]]}, "expected rising"),  # type: ignore[index]
        ({"until": "2026-10-01"}, "expected a later date"),
        ({"input": "2 USD"}, "0.20 USD/1M tokens"),
    ],
)
def test_wrong_token_prices_are_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as raised:
        provider(token_prices=[{**RATE, **changed}])
    assert field in str(raised.value)


def test_token_prices_are_of_endpoints_and_instead_of_an_hours_price() -> None:
    for changed in (
        {"prices": [{"purchase": "on_demand", "price": "1 USD/h", "since": "2026-01-01", "source": "list"}]},
        {"token_prices": [RATE, RATE]},
    ):
        with pytest.raises(ValidationError, match="expected"):
            provider(**changed)
    with pytest.raises(ValidationError, match="no endpoint"):
        provider(launcher={"kind": "simulated", "seed": 1})
    assert provider().of_trial().token_prices == (), "a price change is no change of the trial"
