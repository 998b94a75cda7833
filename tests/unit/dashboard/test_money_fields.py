"""No page answers a reader without access to costs with an amount that a provider declares, whatever kind of amount it is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi.testclient import TestClient
from pydantic import Field, TypeAdapter
from tests.browser.sample import campaign, record
from tests.data.page_addresses import address_of, routes_of

from plumbline.archive import open_archive
from plumbline.dashboard.access import without_costs
from plumbline.dashboard.app import create_app
from plumbline.dashboard.money_fields import without_money
from plumbline.declarations import Contract, Declarations, Provider, load
from plumbline.declarations.base import Declared
from plumbline.metrics.units import HourlyPrice, Share

SINCE = {"since": "2025-01-01", "source": "contract 6667-7"}
PLANTED: dict[str, list[dict[str, Any]]] = {
    "prices": [{"purchase": "on_demand", "price": "66660.17 USD/h", **SINCE}],
    "owned": [
        {
            "capital": "66661173 USD",
            "residual": "6666219 USD",
            "years": 5,
            "power_kw": 10.2,
            "energy": "66663.13 USD/kWh",
            "space": "66664.31 USD/month",
            "people": "66665.37 USD/month",
            **SINCE,
        }
    ],
    "serverless": [{"gpu_second": "66666.0041 USD/GPU-second", **SINCE}],
    "support": [{"what": "enterprise support", "per_month": "66667.43 USD/month", "instance_hours": 700, **SINCE}],
    "rates": [
        {"item": "egress", "price": "66668.47 EUR/GB", "rate": "66669.53 USD/EUR", "rate_on": "2025-01-01", **SINCE},
        {"item": "storage", "price": "66670.59 USD/GB-month", **SINCE},
    ],
    "overhead": [{"what": "updates", "time": "2h", "per": "campaign", "price": "66671.61 USD/h", **SINCE}],
    "invoices": [{"month": "2025-02", "amount": "66672.67 USD", "instance_hours": 212.5, "source": "invoice 6667-8"}],
    "token_prices": [
        {
            "input": "66673.71 USD/1M tokens",
            "output": "66674.73 USD/1M tokens",
            "request": "66675.79 USD/1k requests",
            "tiers": [{"above": 200000, "input": "66676.83 USD/1M tokens", "output": "66677.89 USD/1M tokens"}],
            **SINCE,
        }
    ],
    "price_sources": [{"kind": "contract", "contract": "planted"}],
}
BUDGET = {"usd_per_month": 66678.97}
CONTRACT = {
    "name": "planted",
    "source": "contract 6667-9",
    "prices": [{"purchase": "on_demand", "price": "66679.01 USD/GPU-hour", "since": "2025-01-01"}],
}
MARKS = ("6666", "6667")
"""Every planted amount and source begins or ends with one; the token prices per token begin with 0.06667."""


def amounts() -> dict[str, Any]:
    made = {**PLANTED, "budget": BUDGET}
    return {
        name: TypeAdapter(Provider.model_fields[name].rebuild_annotation()).validate_json(json.dumps(value)) for name, value in made.items()
    }


def planted() -> Declarations:
    # Not validated together: no provider has prices by the hour, of its own instances, serverless and of tokens at once.
    whole, made = load(), amounts()
    contract = Contract.model_validate_json(json.dumps(CONTRACT))
    providers = {name: provider.model_copy(update=made) for name, provider in whole.providers.items()}
    return dataclasses.replace(whole, providers=providers, contracts={"planted": contract})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, campaign(folder / "results", repeats=1))
    return folder


@pytest.fixture(params=[True, False], ids=["may see money", "may not"])
def asked(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[bool, TestClient]]:
    monkeypatch.setattr("plumbline.dashboard.sources.load_in_force", planted)
    may: bool = request.param
    app = create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports", may_see_money=lambda: may)
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield may, client


@pytest.mark.fault("a reader asks for prices of owned and serverless instances", ends="left out", keeps="them from every page's JSON")
def test_no_page_has_a_planted_amount(asked: tuple[bool, TestClient], home: Path) -> None:
    may, client = asked
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        first = archive.trials()[0]
        document = archive.document(first.trial_id)
    assert document is not None
    known = {
        "provider": document.trial.provider.name,
        "campaign_id": first.campaign_id,
        "trial_id": first.trial_id,
        "finding_id": "none",
        "workload": document.trial.workload.name,
        "team": sorted(load().teams)[0],
        "kind": document.trial.workload.kind,
    }
    routes = [route for route in routes_of(client.app) if route.path.endswith(".json")]
    assert len(routes) >= 10
    answers = {route.path: client.get(address_of(route, known)) for route in routes}
    shown = sorted(path for path, answer in answers.items() if any(mark in answer.text for mark in MARKS))
    # The positive control: the amounts are planted where pages read them.
    assert bool(shown) == may, shown
    broken = {path: answer.status_code for path, answer in answers.items() if answer.status_code not in (200, 403, 404)}
    assert may or not broken, broken


def test_nothing_planted_is_left_in_the_declarations() -> None:
    name, provider = next(iter(planted().providers.items()))
    assert all(any(mark in repr(getattr(provider, field)) for mark in MARKS) or field == "price_sources" for field in (*PLANTED, "budget"))
    shown = without_costs(planted())
    assert shown.contracts == {}
    for left in (repr(shown.providers[name]), shown.providers[name].model_dump_json()):
        assert not any(mark in left for mark in MARKS)


def test_a_provider_without_money_stays_the_same() -> None:
    provider = without_money(load().providers["local-1core"])
    assert without_money(provider) is provider
    assert provider.launcher == load().providers["local-1core"].launcher


def test_a_simulated_change_of_the_price_is_left_out_and_no_other_change() -> None:
    changed = {name: (p.launcher, without_money(p).launcher) for name, p in load().providers.items() if p.launcher.price_changes()}
    assert changed
    for whole, shown in changed.values():
        kinds = [each.kind for each in whole.drift]  # type: ignore[union-attr]
        assert [each.kind for each in shown.drift] == [kind for kind in kinds if kind != "price_change"]  # type: ignore[union-attr]


class Fee(Declared):
    per_hour: HourlyPrice
    what: str = "a fee"


class Nested(Declared):
    plain: int = 1
    fees: dict[str, Fee] = Field(default_factory=dict)


class Later(Declared):
    """As a declaration that gets new fields of money."""

    name: str
    share: Share | None = None
    setup: HourlyPrice | None = None
    listed: tuple[Annotated[HourlyPrice, "each"], ...] = ()
    fee: Fee | None = None
    nested: Nested = Nested()
    usd_limit: float | None = None


def test_a_new_field_of_money_is_hidden_by_itself() -> None:
    fee = Fee(per_hour="6666 USD/h")
    later = Later(
        name="x", share="5%", setup="6666 USD/h", listed=("6666 USD/h",), fee=fee, nested=Nested(plain=2, fees={"a": fee}), usd_limit=6666
    )
    assert without_money(later) == Later(name="x", share="5%", nested=Nested(plain=2))


def test_a_required_amount_cannot_be_left_out() -> None:
    with pytest.raises(TypeError, match=r"Fee\.per_hour holds money and is required"):
        without_money(Fee(per_hour="6666 USD/h"))


def test_every_field_of_a_provider_that_was_money_before_is_money_now() -> None:
    shown = without_money(next(iter(planted().providers.values())))
    assert all(
        getattr(shown, field) == Provider.model_fields[field].get_default(call_default_factory=True) for field in (*PLANTED, "budget")
    )
