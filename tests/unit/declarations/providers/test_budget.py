"""Budgets of providers as they are declared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.golden import Golden

from plumbline.declarations import Provider

PRICE = {"purchase": "on_demand", "price": "0.04 USD/h", "since": "2026-01-01", "source": "an example"}
GPU = {"accelerator": {"kind": "nvidia", "count": 8}, "launcher": {"kind": "simulated", "seed": 1}}


def provider(budget: Any, **changed: Any) -> Provider:
    declared = {
        "name": "p",
        "cloud": "c",
        "region": "r",
        "instance_type": "i",
        "accelerator": {"kind": "cpu", "count": 1},
        "launcher": {"kind": "local", "cpus": [0]},
        "prices": [PRICE],
        "budget": budget,
        **changed,
    }
    return Provider.model_validate_json(json.dumps(declared))


def test_a_budget_says_what_it_allows(golden: Golden) -> None:
    both = provider({"gpu_hours_per_month": 1200.5, "usd_per_month": 5000}, **GPU).budget
    golden("declarations.budget", f"{provider({'usd_per_month': 5000}).budget}\n{both}")


@pytest.mark.parametrize(
    ("budget", "changed", "message"),
    [
        ({}, {}, "expected gpu_hours_per_month, usd_per_month"),
        ({"usd_per_month": 0}, {}, "greater than 0"),
        ({"usd_per_month": "5000"}, {}, "valid number"),
        ({"usd_per_week": 10}, {}, "usd_per_week"),
        ({"gpu_hours_per_month": 10}, {}, "accelerator.kind is cpu; expected usd_per_month"),
        ({"usd_per_month": 10}, {"prices": [{**PRICE, "purchase": "spot"}]}, "no on_demand price is declared"),
        ({"usd_per_month": 10}, {"prices": []}, "no on_demand price is declared"),
    ],
)
def test_a_budget_that_could_not_be_kept_is_refused(budget: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        provider(budget, **changed)


def test_trials_carry_no_budget_so_that_an_earlier_harness_reads_them() -> None:
    declared = provider({"usd_per_month": 5000})
    assert declared.of_trial().budget is None
    assert declared.of_trial() == provider(None)
