"""Rows of costs by provider, where some of them scaled and others did not."""

from __future__ import annotations

from tests.unit.scorecards.made import launched, number
from tests.unit.scorecards.places import place

from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.cost.unit_costs import IDLE_REPLICAS
from plumbline.analysis.prices.book import quote
from plumbline.analysis.scorecards.scorecard import scorecards
from plumbline.analysis.trial_sample import TrialSample
from plumbline.metrics.formatting import format_name
from plumbline.presentation.costs import CostRow, cost_rows

PRICE = {"purchase": "on_demand", "price": "7.20 USD/h", "since": "2026-01-01", "source": "a contract"}


def rows(**idle_s: float | None) -> dict[str, CostRow]:
    """By name, of one inference workload on providers at 7.20 USD/h; `idle_s`: seconds of their idle replicas, None where none was seen to scale."""
    providers = {name: place(name, prices=[PRICE]) for name in idle_s}
    trials = [_trial(name, seconds) for name, seconds in idle_s.items()]
    (day,) = {trial.started for trial in trials if trial.started}
    cards = scorecards(with_costs(trials, providers, day), providers=providers)
    return {row.name: row for row in cost_rows(cards, tuple(idle_s), {name: quote(p, day) for name, p in providers.items()})}


def _trial(provider: str, idle_s: float | None) -> TrialSample:
    seen = () if idle_s is None else (number("idle_replica_time", idle_s, "scale_out", n=1),)
    rate = number("output_token_throughput", 1000.0)
    return launched(1, provider=provider, kind="inference", workload="chat", metrics=(rate, *seen))


def test_what_idle_replicas_cost_is_a_row_where_a_provider_scaled() -> None:
    found = rows(a=120.0, b=None)[format_name(IDLE_REPLICAS)]
    assert found.cells == ("0.24 USD", "–")
    assert found.reasons == ("", "its replicas were not seen to scale")


def test_a_workload_whose_servers_never_scaled_has_no_such_row() -> None:
    assert format_name(IDLE_REPLICAS) not in rows(a=None, b=None)
