"""Who may not see money meets no contract price on any page, and is refused where a page is about nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser.sample import campaign, record
from tests.data.page_addresses import address_of, routes_of
from tests.parsed import Parsed

from plumbline.answers.current_results import current_results
from plumbline.archive import FindingRecord, open_archive
from plumbline.dashboard.access import ArchiveWithoutCosts, allow_everyone, without_costs
from plumbline.dashboard.app import create_app
from plumbline.dashboard.money_fields import AMOUNT_HIDDEN, without_amounts
from plumbline.declarations import Declarations, load
from plumbline.declarations.providers.provider import Price
from plumbline.declarations.providers.token_rate import TokenRate
from plumbline.findings import provider_finding
from plumbline.presentation.html.report import write_report
from plumbline.results.finding import DECISION_CHANGE_PREFIX, Finding, PriceMove

ACCEPTED, DECLARED, BUDGET, SAID = "77.7713", "66.6617", "5,551.90", "44.4479"
PAGES_OF_MONEY = {"/prices", "/prices/{provider}", "/spend", "/invoices", "/owning", "/decisions", "/decisions/{team}/{kind}"}
OF_MONEY = {
    *PAGES_OF_MONEY,
    *(f"{path}.json" for path in PAGES_OF_MONEY),
    "/spend.csv",
    "/budgets",
    "/decisions/{team}/{kind}/negotiate",
    "/reports/{campaign_id}",
    "/reports/{campaign_id}/raw.html",
    "/findings/{finding_id}/claim.eml",
    "/campaigns/{campaign_id}/tables/{name}",
    "/campaigns/{campaign_id}/data-docs/{checked}/{suite}",
    "/campaigns/{campaign_id}/sheet.zip",
}


def budget_finding(provider: str) -> Finding:
    """Of a kind that may be seen, with amounts in its texts and its fields."""
    return provider_finding(
        provider,
        "missing_data",
        "budget",
        since="2026-11-03",
        severity="warn",
        title="budget of 2026-11 reached: 3 of 9 trials skipped",
        evidence=f"campaign 2026-11 (the run costs {BUDGET} USD)",
        explanation=f"skipped: training gpt; {BUDGET} USD of {BUDGET} USD before that run",
        prices=(PriceMove(provider, 1.0, float(DECLARED)),),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    data = campaign(folder / "results", repeats=1)
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, data)
        first = data.documents[0].trial
        where = first.provider.name
        made = {"provider": where, "severity": "warn", "campaign_id": first.campaign_id, "series_key": first.series_key}
        archive.accept_price(where, "on_demand", None, float(ACCEPTED), date(2025, 6, 1), "contract 2025-2", by="ada", why="signed")
        archive.save_findings(
            [
                FindingRecord(finding_id="f-price", kind="price", headline=f"WARN  price {ACCEPTED}", **made),
                FindingRecord(finding_id="f-speed", kind="performance", headline="WARN  step time", **made),
                FindingRecord(
                    finding_id="f-first",
                    kind="performance",
                    headline=f"WARN  first at {ACCEPTED}",
                    detail={"subject": f"{DECISION_CHANGE_PREFIX}t"},
                    **made,
                ),
                FindingRecord(
                    finding_id="f-budget", kind="missing_data", headline="budget reached", detail=budget_finding(where).to_dict(), **made
                ),
            ]
        )
        archive.add_audit(who="ada", what="finding_acknowledged", subject="f-budget", why=f"at {SAID} USD/h we wait")
    write_report(data, folder / "reports", ("csv",))
    return folder


@pytest.fixture(autouse=True)
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every provider has a contract price and an invoice."""
    price = Price(purchase="on_demand", price=f"{DECLARED} USD/h", since=date(2025, 1, 1), source="contract 2025-1")

    def with_prices() -> Declarations:
        whole = load()
        changed = {"prices": (price,)}
        return dataclasses.replace(whole, providers={name: p.model_copy(update=changed) for name, p in whole.providers.items()})

    monkeypatch.setattr("plumbline.dashboard.sources.load_in_force", with_prices)


@pytest.fixture(params=[True, False], ids=["may see money", "may not"])
def asked(request: pytest.FixtureRequest, home: Path) -> Iterator[tuple[bool, TestClient]]:
    may: bool = request.param
    app = create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports", may_see_money=lambda: may)
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield may, client


@pytest.mark.fault("a reader asks for contract prices and invoices", ends="refused", keeps="them from every page, call and report")
def test_money_is_refused_or_left_out_on_every_route(asked: tuple[bool, TestClient], home: Path) -> None:
    may, client = asked
    routes = routes_of(client.app)
    assert {route.path for route in routes} >= OF_MONEY
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        first = archive.trials()[0]
        document = archive.document(first.trial_id)
    assert document is not None
    known = {
        "provider": document.trial.provider.name,
        "campaign_id": first.campaign_id,
        "trial_id": first.trial_id,
        "series_key": document.trial.series_key,
        "finding_id": "f-speed",
        "workload": document.trial.workload.name,
        "team": sorted(load().teams)[0],
        "kind": document.trial.workload.kind,
        "metric": "step_time",
        "number": "0",
    }
    shown = ""
    for route in routes:
        found = client.get(address_of(route, known))
        if route.path in OF_MONEY:
            assert (found.status_code == 403) == (not may), route.path
        else:
            assert found.status_code != 403, route.path
        shown += found.text
    for address in ("/findings/f-budget", "/findings/f-budget.json"):
        shown += client.get(address).text
    assert all((secret in shown) == may for secret in (ACCEPTED, DECLARED, BUDGET, SAID))


def test_findings_of_prices_and_of_first_choices_are_for_those_who_may(asked: tuple[bool, TestClient]) -> None:
    may, client = asked
    ids = {finding["finding_id"] for finding in client.get("/findings.json").json()["findings"]}
    assert ids == ({"f-price", "f-speed", "f-first", "f-budget"} if may else {"f-speed", "f-budget"})
    assert [client.get(f"/findings/{name}").status_code for name in ("f-price", "f-first")] == ([200, 200] if may else [404, 404])
    assert client.get("/findings/f-speed").status_code == 200
    assert ("/prices" in Parsed(client.get("/").text).values("a", "href")) == may


@pytest.mark.fault(
    "a finding about a budget or a comment names an amount", ends="a note in its place", keeps="it from readers without costs"
)
def test_a_finding_of_another_kind_is_shown_without_its_amounts(asked: tuple[bool, TestClient]) -> None:
    may, client = asked
    page = client.get("/findings/f-budget").text
    assert "budget of 2026-11 reached: 3 of 9 trials skipped" in page
    assert (BUDGET in page, SAID in page, AMOUNT_HIDDEN in page) == (may, may, not may)


@pytest.mark.parametrize(
    "text", ["27.60 USD/h", "from 23.92 to 31.20 USD", "19.80 EUR/instance-hour", "2 PLN/GPU-hour", "costs $12", "€ 3"]
)
def test_a_text_with_an_amount_is_hidden(text: str) -> None:
    assert without_amounts({"a": ["fine", text], "b": 1}) == {"a": ["fine", AMOUNT_HIDDEN], "b": 1}


@pytest.mark.parametrize("text", ["8 GPU", "driver 550 → 570", "3 of 9 trials", "1980 MHz", "USDT-node", "2 TCP/host"])
def test_a_text_without_one_stays(text: str) -> None:
    assert without_amounts(text) == text


@pytest.mark.fault("a provider is no longer declared", ends="no costs", keeps="its trials' own prices from readers without costs")
def test_a_removed_providers_prices_are_for_those_who_may(home: Path) -> None:
    declared = dataclasses.replace(load(), providers={})
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        for shown in (archive, ArchiveWithoutCosts(archive.engine)):
            providers = current_results(shown, declared, date(2026, 12, 1)).providers
            assert providers
            assert any(provider.prices for provider in providers.values()) == (shown is archive)


def test_prices_of_tokens_are_prices() -> None:
    rate = TokenRate.model_validate_json(
        '{"input": "2.00 USD/1M tokens", "output": "8.00 USD/1M tokens", "since": "2025-01-01", "source": "a test"}'
    )
    (name, provider), *_ = load().providers.items()
    declared = dataclasses.replace(load(), providers={name: provider.model_copy(update={"token_prices": (rate,)})})
    assert without_costs(declared).providers[name].token_prices == ()


def test_one_person_alone_sees_everything() -> None:
    assert allow_everyone()


@pytest.mark.fault("a served report runs a script", ends="in an origin of its own", keeps="Airflow's login")
def test_a_report_is_served_in_a_sandbox(home: Path) -> None:
    with TestClient(create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")) as client:
        policy = client.get("/reports/2026-11").headers["Content-Security-Policy"]
    (sandbox,) = [part.split() for part in policy.split(";") if part.strip().startswith("sandbox")]
    assert "allow-scripts" in sandbox and "allow-same-origin" not in sandbox
