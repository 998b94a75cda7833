"""Where prices are learnt from, and contracts: what is right, and what each mistake is told as."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.providers.amounts import HourlyAmount
from plumbline.declarations.providers.contract import Contract, ContractPrice
from plumbline.declarations.providers.provider import ContractSource, CsvSource, GpuhuntSource, OpencostSource

PAGE = (REPOSITORY / "docs" / "watch-prices.md").read_text(encoding="utf-8")

CONTRACT = """\
name: neo-2026
source: contract 2026-114, annex B
prices:
  - {purchase: reserved, term: 1y, price: 2.29 USD/GPU-hour, since: 2026-01-01, until: 2027-01-01}
  - {purchase: reserved, term: 1y, price: 2.09 USD/GPU-hour, since: 2027-01-01}
  - {purchase: on_demand, price: 22.00 EUR/instance-hour, rate: 1.10 USD/EUR, rate_on: 2026-09-30, since: 2026-01-01}
"""
SOURCES = """\
price_sources:
  - {kind: gpuhunt, cloud: oci}
  - {kind: contract, contract: neo-2026}
  - {kind: csv, file: prices/history.csv}
  - {kind: opencost, url: http://opencost:9003, window: 2d, purchase: spot}
sla:"""


@pytest.fixture
def sourced(config: Path) -> Path:
    """The small folder with all four kinds of sources and a contract."""
    (config / "contracts").mkdir()
    (config / "contracts" / "neo-2026.yaml").write_text(CONTRACT)
    file = config / "providers" / "here.yaml"
    file.write_text(file.read_text().replace("sla:", SOURCES))
    return config


def test_all_four_kinds_and_a_contract_are_read(sourced: Path) -> None:
    declared = load(sourced)
    assert [source.kind for source in declared.providers["here"].price_sources] == ["gpuhunt", "contract", "csv", "opencost"]
    contract = declared.contracts["neo-2026"]
    before, after = contract.on(date(2026, 12, 31)), contract.on(date(2027, 1, 1))
    assert [p.price for p in before] == [HourlyAmount(2.29, "USD", "gpu_hour"), HourlyAmount(22.0, "EUR", "instance_hour")]
    assert [p.price.amount for p in after] == [2.09, 22.0], "a price ends before the day of its `until`"
    assert [p.usd_per_unit for p in before] == [1.0, 1.1]


def test_a_provider_with_sources_goes_into_a_trial_and_comes_back(sourced: Path) -> None:
    provider = load(sourced).providers["here"]
    assert type(provider).model_validate_json(provider.model_dump_json()) == provider


@pytest.mark.parametrize(
    ("file", "old", "new", "where", "said"),
    [
        ("contracts/neo-2026.yaml", "2.29 USD/GPU-hour", "2.29 USD/h", "4  prices[0].price", "expected a price such as 2.29 USD/GPU-hour"),
        ("contracts/neo-2026.yaml", "2.29 USD/GPU-hour", "0 USD/GPU-hour", "4  prices[0].price", "not a price above 0"),
        ("contracts/neo-2026.yaml", "1.10 USD/EUR, ", "1.10, ", "6  prices[2].rate", "expected a rate such as 1.08 USD/EUR"),
        ("contracts/neo-2026.yaml", "rate: 1.10 USD/EUR, ", "", "6  prices[2].price", "is in EUR; expected rate, such as 1.08 USD/EUR"),
        ("contracts/neo-2026.yaml", "1.10 USD/EUR", "1.10 USD/GBP", "6  prices[2].price", "is in EUR; expected rate"),
        ("contracts/neo-2026.yaml", "2.09 USD/GPU-hour,", "2.09 USD/GPU-hour, rate_on: 2026-01-01,", "5  prices[1]", "rate is not needed"),
        (
            "contracts/neo-2026.yaml",
            "purchase: on_demand,",
            "purchase: on_demand, term: 1y,",
            "6  prices[2].term",
            "expected purchase: reserved",
        ),
        ("contracts/neo-2026.yaml", "until: 2027-01-01", "until: 2025-01-01", "4  prices[0].until", "expected a later date"),
        ("contracts/neo-2026.yaml", ", until: 2027-01-01", "", "", "two reserved 1y prices hold on 2027-01-01"),
        ("providers/here.yaml", "contract: neo-2026", "contract: neo-2025", "11  price_sources[1].contract", "expected one of neo-2026"),
        ("providers/here.yaml", "kind: csv", "kind: xls", "12  price_sources[2].kind", "expected one of gpuhunt, contract, csv, opencost"),
        ("providers/here.yaml", "http://opencost:9003", "opencost:9003", "13  price_sources[3].url", "such as http://opencost"),
        ("providers/here.yaml", "//opencost", "//me:secret@opencost", "13  price_sources[3].url", "has a user or password"),
        ("providers/here.yaml", "window: 2d", "window: 5min", "13  price_sources[3].window", "5min is too short; expected at least 1h"),
        ("providers/here.yaml", "cloud: oci", "clout: oci", "10  price_sources[0].clout", "did you mean cloud?"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    sourced: Path, broken: Callable[[str, str, str], Path], file: str, old: str, new: str, where: str, said: str
) -> None:
    with pytest.raises(DeclarationError) as raised:
        load(broken(file, old, new))
    told = [str(problem) for problem in raised.value.problems]
    assert len(told) == 1, told
    assert f"config/{file}:{where}" in told[0] and said in told[0]


def test_a_contract_that_cannot_be_read_is_told_once(sourced: Path) -> None:
    (sourced / "contracts" / "neo-2026.yaml").write_text(CONTRACT.replace("2.29 USD", "2.29 $"))
    with pytest.raises(DeclarationError) as raised:
        load(sourced)
    assert len(raised.value.problems) == 1, str(raised.value)


def test_the_page_shows_what_can_be_declared(config: Path) -> None:
    sources, contract = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (config / "contracts").mkdir()
    (config / "contracts" / "neo-2026.yaml").write_text(contract)
    file = config / "providers" / "here.yaml"
    file.write_text(file.read_text() + sources)
    assert len(load(config).providers["here"].price_sources) == 4


@pytest.mark.parametrize("model", [GpuhuntSource, ContractSource, CsvSource, OpencostSource, Contract, ContractPrice])
def test_every_key_is_explained(model: type[BaseModel]) -> None:
    explained = (
        set(re.findall(r"`([a-z_]+)", PAGE))
        | set(re.findall(r"[{ ]([a-z_]+): ", PAGE))
        | set(re.findall(r"^([a-z_]+): ", PAGE, re.MULTILINE))
    )
    assert set(model.model_fields) - explained - {"description"} == set()
