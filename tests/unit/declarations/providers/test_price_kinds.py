"""Prices of ownership and serverless GPUs, and support plans: what is declared, and what is refused with the expected shape."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import provider

from plumbline.analysis.cost.trial_bill import TrialUsage, trial_bill
from plumbline.analysis.prices.book import quote, with_price_factor
from plumbline.declarations.providers.price_kinds import Ownership, ServerlessRate, SupportPlan

DAY = date(2026, 11, 20)
SOURCE = {"since": "2026-01-01", "source": "an offer"}
OWNED = {"capital": "350640 USD", "years": 4.0, **SOURCE}
"""350,640 / (4 · 8,766 h) = 10 USD/h."""


def test_without_a_price_on_demand_the_owned_one_counts_everywhere() -> None:
    place = provider(prices=[], owned=[OWNED])
    for purchase in ("on_demand", "owned"):
        basis = quote(place, DAY, purchase).basis
        assert basis is not None and (basis.purchase, basis.usd_per_hour) == ("owned", 10.0)
    assert quote(place, DAY, "spot").basis is None
    halved = quote(with_price_factor(place, 0.5), DAY).basis
    assert halved is not None and halved.usd_per_hour == 5.0


def test_beside_a_price_on_demand_it_counts_only_where_it_is_asked_for() -> None:
    place = provider(prices=[{"purchase": "on_demand", "price": "36 USD/h", **SOURCE}], owned=[OWNED])
    found = [quote(place, DAY, purchase).basis for purchase in ("on_demand", "owned")]
    assert [basis.usd_per_hour for basis in found if basis is not None] == [36.0, 10.0]


def test_a_trial_carries_none_of_it() -> None:
    place = provider(prices=[], owned=[OWNED], support=[{"what": "business", "share": "10%", **SOURCE}])
    assert (place.of_trial().owned, place.of_trial().support) == ((), ())


def test_support_is_a_line_of_a_trial_s_bill() -> None:
    """Half an hour at 10 USD/h is 5 USD; 10 % of it 0.50; 700 USD a month over 350 h in use, 0.5 / 350 · 700 = 1.00."""
    plans = [
        {"what": "business", "share": "10%", **SOURCE},
        {"what": "hotline", "per_month": "700 USD/month", "instance_hours": 350.0, **SOURCE},
    ]
    place = provider(prices=[], owned=[OWNED], support=plans)
    use = TrialUsage("t", place.name, DAY, usable=True, ended="valid", held_s=1800.0, measured_s=1800.0)
    bill = trial_bill(use, place, DAY)
    assert [str(line.cost) for line in bill.lines if line.item == "support"] == ["0.50 USD", "1.00 USD"]
    unknown = trial_bill(TrialUsage("t", place.name, DAY, usable=True, ended="valid", held_s=None, measured_s=None), place, DAY).unknown
    assert "support" in {each.item for each in unknown}


@pytest.mark.parametrize(
    ("kind", "wrong", "expected"),
    [
        (Ownership, OWNED | {"power_kw": 10.0}, "both power_kw and energy"),
        (Ownership, OWNED | {"residual": "400000 USD"}, "residual is above capital"),
        (Ownership, OWNED | {"power_kw": 10.0, "energy": "0.10 USD/h"}, "energy is per h"),
        (Ownership, OWNED | {"capital": "350640 EUR"}, "expected rate"),
        (Ownership, OWNED | {"space": "10 EUR/month"}, "expected rate"),
        (ServerlessRate, {"gpu_second": "3.60 USD/GPU-hour", **SOURCE}, "gpu_second is per GPU-hour"),
        (SupportPlan, {"what": "business", **SOURCE}, "expected share"),
        (SupportPlan, {"what": "business", "share": "10%", "per_month": "1 USD/month", "instance_hours": 1.0, **SOURCE}, "expected share"),
        (SupportPlan, {"what": "business", "per_month": "1 USD/month", **SOURCE}, "with instance_hours"),
    ],
)
def test_what_cannot_be_is_refused(kind: Any, wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        kind.model_validate_json(json.dumps(wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"serverless": [{"gpu_second": "0.001 USD/GPU-second", **SOURCE}]},  # no endpoint
        {"owned": [OWNED, OWNED | {"since": "2026-02-01"}]},  # two at a time
    ],
)
def test_a_provider_that_cannot_have_it_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="expected"):
        provider(prices=[], **wrong)
