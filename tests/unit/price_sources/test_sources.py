"""All sources of a provider at once: each is asked, and one that fails keeps none of the others from being heard."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tests.fakes.opencost import FakeOpencost, Pod
from tests.fakes.trials import declared

from plumbline.declarations import Contract, Declarations, Provider
from plumbline.declarations.providers.provider import ContractSource, CsvSource, OpencostSource
from plumbline.price_sources import NoPrice, PriceSourceDown, read_prices

CONTRACT = {
    "name": "neo",
    "source": "contract 1",
    "prices": [{"purchase": "reserved", "price": "2.00 USD/GPU-hour", "since": "2026-01-01"}],
}
HISTORY = """\
date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour
2026-11-20,aws,us-east-1,p5.48xlarge,H100,8,on-demand,6.20
"""


def world() -> Declarations:
    shipped = declared()
    contract = Contract.model_validate_json(json.dumps(CONTRACT))
    return Declarations(shipped.providers, shipped.workloads, shipped.teams, shipped.thresholds, {"neo": contract})


def test_every_kind_is_asked_in_the_order_of_the_declaration(provider: Callable[..., Provider], at: datetime, tmp_path: Path) -> None:
    (tmp_path / "history.csv").write_text(HISTORY)
    with FakeOpencost([Pod("plumbline", {"plumbline/provider": "eks-p5"}, cost=11.0, gpu_hours=2.0)]) as opencost:
        sources = (
            ContractSource(kind="contract", contract="neo"),
            CsvSource(kind="csv", file="history.csv"),
            OpencostSource(kind="opencost", url=opencost.url, window="1d"),
        )
        told = read_prices(provider(price_sources=sources), world(), at, config=tmp_path)
    assert [(r.source, r.purchase, r.usd_per_gpu_hour) for r in told.readings] == [
        ("contract", "reserved", 2.0),
        ("csv", "on_demand", 6.20),
        ("opencost", "on_demand", 5.5),
    ]
    assert told.failures == ()


def test_one_that_is_down_and_one_that_knows_nothing_leave_the_third(
    provider: Callable[..., Provider], at: datetime, tmp_path: Path
) -> None:
    (tmp_path / "history.csv").write_text(HISTORY)
    sources = (
        CsvSource(kind="csv", file="nowhere.csv"),
        CsvSource(kind="csv", file="history.csv"),
        ContractSource(kind="contract", contract="neo"),
    )
    told = read_prices(provider(price_sources=sources, region="eu-west-1"), world(), at, config=tmp_path)
    assert [r.source for r in told.readings] == ["contract"]
    assert [type(failure) for failure in told.failures] == [PriceSourceDown, NoPrice]
    assert all("price of eks-p5" in str(failure) for failure in told.failures)


def test_a_provider_without_sources_is_told_nothing(provider: Callable[..., Provider], at: datetime) -> None:
    told = read_prices(provider(), world(), at)
    assert (told.readings, told.failures) == ((), ())
