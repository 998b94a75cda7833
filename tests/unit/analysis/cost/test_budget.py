"""What a month's budget still carries: pure arithmetic."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from tests.golden import Golden

from plumbline.analysis.cost.budget import Balance, BudgetUse, budget_use, expected_held_s, rounds_within_budget, sum_limits
from plumbline.analysis.prices.book import quote
from plumbline.declarations import Budget, Provider

DAY = date(2026, 11, 21)
H100 = {"kind": "nvidia", "count": 8}
PRICE = {"purchase": "on_demand", "price": "40 USD/h", "since": "2026-01-01", "source": "contract 7"}
TWO_CORES = {"accelerator": {"kind": "cpu", "count": 2}, "launcher": {"kind": "local", "cpus": [0, 1]}}


def provider(**changed: Any) -> Provider:
    declared = {
        "name": "a-h100",
        "cloud": "a",
        "region": "here",
        "instance_type": "h100x8",
        "accelerator": H100,
        "launcher": {"kind": "simulated", "seed": 1},
        "prices": [PRICE],
        **changed,
    }
    return Provider.model_validate_json(json.dumps(declared))


def balance(gpu_hours: float | None = 100, usd: float | None = None, used: BudgetUse | None = None) -> Balance:
    return Balance("a-h100", "2026-11", Budget(gpu_hours_per_month=gpu_hours, usd_per_month=usd), used or BudgetUse())


def test_every_accelerator_of_an_instance_is_used_while_it_is_held_and_the_price_is_the_instances() -> None:
    assert budget_use(provider(), 1800.0, DAY) == BudgetUse(4.0, 20.0, share=20.0)
    assert budget_use(provider(**TWO_CORES), 1800.0, DAY) == BudgetUse(0.0, 20.0, share=20.0)


def test_limits_of_one_unit_are_summed_where_several_providers_have_them() -> None:
    used = BudgetUse(30.0, 90.0)
    (gpu,) = sum_limits([balance(100, 200.0, used), balance(50, None, used)])
    assert (gpu.unit, gpu.limit, gpu.used, gpu.left, gpu.share) == ("GPU-hours", 150.0, 60.0, 90.0, 0.4)
    unknown = balance(None, 300.0, BudgetUse(1.0, None, "no price"))
    assert [(s.unit, s.limit, s.used, s.left, s.share) for s in sum_limits([balance(None, 200.0, used), unknown])] == [
        ("USD", 500.0, None, None, None)
    ]
    assert sum_limits([balance(100, 200.0)]) == ()


def test_a_price_that_is_not_known_is_no_price_of_nothing() -> None:
    unknown = budget_use(provider(), 3600.0, date(2025, 12, 31))
    assert (unknown.gpu_hours, unknown.usd) == (8.0, None)
    assert unknown.unpriced == quote(provider(), date(2025, 12, 31)).reason is not None
    assert (budget_use(provider(), 3600.0, DAY) + unknown).usd is None
    assert budget_use(provider(), 0.0, date(2025, 12, 31)) == BudgetUse(), "nothing held costs nothing, whatever the price is"


def test_several_alike_take_as_many_times_as_much() -> None:
    assert BudgetUse(2.0, 3.0, share=1.0).times(4) == BudgetUse(8.0, 12.0, share=4.0)
    assert BudgetUse(2.0, None, "no price", None).times(4) == BudgetUse(8.0, None, "no price", None)


def test_a_trial_is_expected_to_take_what_the_last_ones_took_and_the_first_one_all_that_it_may() -> None:
    assert expected_held_s([50.0, 70.0, 400.0], 3600.0) == 70.0
    assert expected_held_s([], 3600.0) == 3600.0


@pytest.mark.parametrize(
    ("balance", "exceeded"),
    [
        (balance(100, None, BudgetUse(100.0, None, "no price")), None),
        (balance(100, None, BudgetUse(100.1, 1.0)), "100.10 of 100 GPU-hours"),
        (balance(None, 500, BudgetUse(1e9, 500.0)), None),
        (balance(100, 500, BudgetUse(10.0, 500.5)), "500.50 of 500 USD"),
        (balance(100, 500, BudgetUse(10.0, None, "no price is declared")), "USD cannot be counted: no price is declared"),
    ],
)
def test_what_is_past_a_limit_is_said_with_its_figures(balance: Balance, exceeded: str | None) -> None:
    assert balance.exceeded == exceeded


def test_sums_that_are_meant_to_be_the_limit_are_within_it() -> None:
    assert rounds_within_budget(balance(1), [BudgetUse(0.1)] * 10) == (10, None)
    assert rounds_within_budget(balance(1), [BudgetUse(0.1)] * 11)[0] == 10


def test_rounds_fit_in_order_and_nothing_smaller_slips_in_behind_one_that_does_not() -> None:
    rounds = [BudgetUse(30.0), BudgetUse(30.0), BudgetUse(1.0)]
    assert rounds_within_budget(balance(100, None, BudgetUse(60.0)), rounds) == (1, balance(100, None, BudgetUse(120.0)).exceeded)
    full = balance(100, None, BudgetUse(100.0))
    assert rounds_within_budget(full, [BudgetUse(1.0)]) == (0, balance(100, None, BudgetUse(101.0)).exceeded)
    assert rounds_within_budget(balance(100), []) == (0, None)


def test_what_is_left_reads_as_a_person_asks_for_it(golden: Golden) -> None:
    left = (
        balance(100, 5000, BudgetUse(40.0, 1200.0)),
        balance(250000, None, BudgetUse(1234.5678)),
        balance(100, None, BudgetUse(140.0, 0.0)),
        balance(None, 50, BudgetUse(1.0, None, "no price")),
    )
    golden("analysis.budget_left", "\n".join(map(str, left)))
    assert balance(100).usd_left is None


def test_a_trial_on_one_gpu_of_eight_pays_the_instance_that_is_sold_whole_and_one_gpu_where_gpus_are_sold() -> None:
    # Half an hour at 40 USD/h: 20 USD for the instance, 2.50 USD for one GPU.
    assert budget_use(provider(), 1800.0, DAY, gpus=1) == BudgetUse(4.0, 20.0, share=2.5)
    assert budget_use(provider(sold_by="gpu"), 1800.0, DAY, gpus=1) == BudgetUse(0.5, 2.5, share=2.5)
    assert budget_use(provider(), 1800.0, DAY, gpus=8) == budget_use(provider(), 1800.0, DAY)
    assert budget_use(provider(**TWO_CORES), 1800.0, DAY, gpus=1) == BudgetUse(0.0, 20.0, share=20.0), "the other core is the client's"


def test_a_limit_stops_what_is_paid_not_its_share() -> None:
    # Five half hours of one GPU at 40 USD/h: 100 USD paid by the instance, 12.50 USD by the GPU.
    whole, by_gpu = (budget_use(provider(sold_by=how), 1800.0, DAY, gpus=1) for how in ("instance", "gpu"))
    assert rounds_within_budget(balance(None, 50), [whole] * 5) == (2, "60 of 50 USD")
    assert rounds_within_budget(balance(None, 50), [by_gpu] * 5) == (5, None)
    assert rounds_within_budget(balance(10), [whole] * 5) == (2, "12 of 10 GPU-hours")


def test_an_invoice_of_the_month_goes_before_the_list_as_in_a_bill() -> None:
    invoice = {"month": "2026-11", "amount": "600 USD", "instance_hours": 20, "source": "invoice 4711"}
    assert budget_use(provider(invoices=[invoice]), 1800.0, DAY).usd == 15.0
