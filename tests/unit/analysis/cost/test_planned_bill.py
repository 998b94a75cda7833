"""Plans: the seed articles' own cases to the cent, and what does not fit together."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from tests.golden import Golden

from plumbline.analysis.cost.bill import MixedUnits, Money
from plumbline.analysis.cost.planned_bill import PlannedOption, plan_bills
from plumbline.analysis.prices.book import OTHER_GPUS_TEXT, quote
from plumbline.declarations import Provider
from plumbline.declarations.cost_plan import CostPlan
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.loader import load_file

TODAY = date(2026, 11, 21)
PLANS = REPOSITORY / "include" / "config" / "plans"
EKS = Provider.model_validate_json(
    json.dumps(
        {
            "name": "example-eks-p5", "cloud": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge",
            "accelerator": {"kind": "nvidia", "count": 8}, "launcher": {"kind": "simulated", "seed": 1},
            "prices": [
                {"purchase": "on_demand", "price": "98.32 USD/h", "since": "2023-08-08", "until": "2025-06-23", "source": "list price"},
                {"purchase": "on_demand", "price": "55.04 USD/h", "since": "2025-06-23", "source": "list price, cut"},
            ],
        }
    )
)  # fmt: skip


def options(*lines: dict[str, Any] | list[dict[str, Any]]) -> tuple[PlannedOption, ...]:
    made = [{"name": f"option {n}", "lines": each if isinstance(each, list) else [each]} for n, each in enumerate(lines, 1)]
    return plan_bills(CostPlan.model_validate_json(json.dumps({"name": "p", "options": made})), {EKS.name: EKS}, TODAY)


def written(item: str, quantity: str, price: str, **more: Any) -> dict[str, Any]:
    return {"item": item, "quantity": quantity, "price": price, "source": "an example", **more}


def test_the_example_of_500_hours_comes_to_the_cent() -> None:
    plan = load_file(PLANS / "example-training-500h.yaml", CostPlan)
    before, after = plan_bills(plan, {EKS.name: EKS}, TODAY)
    assert (str(before.bill.total), str(after.bill.total), str(after.dearer)) == ("49,160.00 USD", "27,520.00 USD", "-21,640.00 USD")
    (line,) = before.bill.lines
    assert (str(line.quantity), str(line.unit_price), line.basis, line.since) == (
        "500 instance-hour",
        "98.32 USD/instance-hour",
        "list",
        date(2023, 8, 8),
    )


def test_the_example_of_50_million_requests_comes_to_the_cent_with_each_line_visible() -> None:
    hosted, machines, people = plan_bills(load_file(PLANS / "example-chat-50m-requests.yaml", CostPlan), {}, TODAY)
    assert [str(option.bill.total) for option in (hosted, machines, people)] == ["25,000.00 USD", "6,800.00 USD", "21,800.00 USD"]
    assert [(line.item, str(line.cost)) for line in people.bill.lines] == [("gpu", "6,800.00 USD"), ("engineering", "15,000.00 USD")]
    assert (hosted.dearer, machines.dearer, people.dearer) == (None, Money(-18_200.0), Money(-3_200.0))


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_plan_that_is_kept_can_be_read(path: Any) -> None:
    assert load_file(path, CostPlan).name == path.stem


def test_a_price_of_many_is_the_price_of_one_many_times() -> None:
    (option,) = options(written("hosted", "1,500,000,000 tokens", "0.60 USD/1M tokens"))
    assert str(option.bill.total) == "900.00 USD"


def test_a_quantity_that_its_price_does_not_price_is_named_with_its_line(golden: Golden) -> None:
    with pytest.raises(MixedUnits) as error:
        options([written("gpu", "1 h", "2 USD/h"), written("egress", "30 GB-months", "0.09 USD/GB")])
    golden("analysis.planned_line", str(error.value))
    with pytest.raises(MixedUnits) as error:
        options({"item": "gpu", "quantity": "500 h", "provider": EKS.name, "on": "2025-01-15"})
    assert (error.value.expected, error.value.actual) == ("instance-hour", "hour")


def test_an_option_has_one_currency_and_options_of_two_are_not_compared() -> None:
    with pytest.raises(MixedUnits, match=r'^"option 1": ') as error:
        options([written("gpu", "1 h", "2 USD/h"), written("egress", "3 GB", "0.09 EUR/GB")])
    assert (error.value.expected, error.value.actual) == ("USD", "EUR")
    dollars, euros = options(written("gpu", "1 h", "2 USD/h"), written("gpu", "1 h", "2 EUR/h"))
    assert dollars.bill.total == Money(2.0) and euros.bill.total == Money(2.0, "EUR") and euros.dearer is None


def test_a_provider_without_a_price_is_unknown_and_no_difference_is_told() -> None:
    known, unknown = options(
        written("gpu", "1 h", "2 USD/h"), {"item": "gpu", "quantity": "1 instance-hour", "provider": EKS.name, "purchase": "spot"}
    )
    assert unknown.bill.total is None and unknown.dearer is None
    assert unknown.bill.unknown[0].reason == quote(EKS, TODAY, "spot").reason
    assert known.bill.complete


def test_the_price_of_today_counts_unless_a_day_is_named() -> None:
    (option,) = options({"item": "gpu", "quantity": "1 instance-hour", "provider": EKS.name})
    assert option.bill.total == Money(55.04)


def test_gpu_hours_of_a_provider_are_its_instance_hours_divided() -> None:
    by_gpu, by_instance = options(
        {"item": "gpu", "quantity": "800 GPU-hours", "provider": EKS.name},
        {"item": "gpu", "quantity": "100 instance-hours", "provider": EKS.name},
    )
    assert by_gpu.bill.total == by_instance.bill.total == Money(5_504.0)
    assert OTHER_GPUS_TEXT in by_gpu.bill.lines[0].what
