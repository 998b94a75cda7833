"""A contract tells the prices of the day, in its own currency, and says when none holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from plumbline.declarations import Contract, Provider
from plumbline.price_sources import NoPrice
from plumbline.price_sources.declared import ContractPrices

CONTRACT = Contract.model_validate_json(
    json.dumps(
        {
            "name": "neo-2026",
            "source": "contract 2026-114",
            "prices": [
                {"purchase": "reserved", "term": "1y", "price": "2.29 USD/GPU-hour", "since": "2026-01-01", "until": "2027-01-01"},
                {
                    "purchase": "on_demand",
                    "price": "22.00 EUR/instance-hour",
                    "rate": "1.10 USD/EUR",
                    "rate_on": "2026-09-30",
                    "since": "2026-01-01",
                    "until": "2027-01-01",
                },
            ],
        }
    )
)


def test_each_purchase_is_a_reading_of_its_own(provider: Callable[..., Provider], at: datetime) -> None:
    reserved, on_demand = ContractPrices(CONTRACT).read(provider(), at)
    assert (reserved.purchase, reserved.term, reserved.usd_per_gpu_hour) == ("reserved", "1y", 2.29)
    assert reserved.usd_per_instance_hour == pytest.approx(8 * 2.29)
    assert (on_demand.amount, on_demand.currency, on_demand.per) == (22.0, "EUR", "instance_hour")
    assert on_demand.usd_per_instance_hour == pytest.approx(24.2) and on_demand.usd_per_gpu_hour == pytest.approx(24.2 / 8)
    assert (reserved.source_version, reserved.observed_at) == ("contract 2026-114", at)
    assert on_demand.source_version.startswith(reserved.source_version) and on_demand.source_version.endswith(" 2026-09-30")


def test_a_contract_that_ran_out_has_no_price(provider: Callable[..., Provider], at: datetime) -> None:
    with pytest.raises(NoPrice) as error:
        ContractPrices(CONTRACT).read(provider(), at + timedelta(days=60))
    assert (error.value.source, error.value.provider) == ("contract", "eks-p5")
    assert "2027-01-20" in error.value.why and "contracts/neo-2026.yaml" in error.value.remedy
