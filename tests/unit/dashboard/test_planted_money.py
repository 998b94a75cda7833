"""A marked amount in every field of money that any model has, found by walking the models, reaches no reader without access to costs."""

from __future__ import annotations

import dataclasses
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from sqlalchemy import JSON, update
from tests.browser.sample import campaign, record
from tests.data.page_addresses import address_of, routes_of

import plumbline
from plumbline.analysis.cost.bill import Money, UnitPrice
from plumbline.archive import Archive, DecisionRecord, FindingRecord, open_archive
from plumbline.archive.columns import PrintableJson
from plumbline.archive.schema import Base
from plumbline.dashboard import pages
from plumbline.dashboard.access import ArchiveWithoutCosts
from plumbline.dashboard.app import create_app
from plumbline.dashboard.money_fields import (
    AMOUNT_HIDDEN,
    NUMBER_HIDDEN,
    holds_money,
    json_without_money,
    money_fields,
    shown_without_money,
    type_hints,
    without_amounts,
    without_numbers,
)
from plumbline.declarations import load
from plumbline.findings import provider_finding
from plumbline.metrics import formatting
from plumbline.metrics.units import Amount
from plumbline.results.finding import EndingHours, Finding, PriceMove, PromisedCredit
from plumbline.results.price_reading import Reading

MARK = 66660.17
SHAPES = (
    "66660",
    "66,660",
    "67000",
    "67,000",
    "66_660",
)
"""The mark in each form that a page or a format gives a number: whole, with thousands, with two digits."""
WITHOUT_PAGES = ("airflow", "embedded", "cli", "harness", "loadclient", "reporter")
"""Rooms that hand nothing to a page."""


def shapes_in(text: str) -> list[str]:
    return [shape for shape in SHAPES if shape in text]


def classes() -> list[type]:
    """Every dataclass and every model of the rooms that pages read."""
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(plumbline.__path__, "plumbline."):
        if module.name.split(".")[1] in WITHOUT_PAGES or ".migrations" in module.name or ".cluster" in module.name:
            continue
        for each in vars(import_module(module.name)).values():
            if isinstance(each, type) and each.__module__.startswith("plumbline.") and (is_dataclass(each) or issubclass(each, BaseModel)):
                found[f"{each.__module__}.{each.__qualname__}"] = each
    return [found[name] for name in sorted(found)]


RECORDS = [each for each in classes() if is_dataclass(each) and money_fields(each)]
MODELS = [each for each in classes() if issubclass(each, BaseModel) and money_fields(each)]
TABLES = {mapper.class_: money_fields(mapper.class_) for mapper in Base.registry.mappers if money_fields(mapper.class_)}


def test_the_walk_finds_the_fields_of_money() -> None:
    assert len(MODELS) > 8 and sum(len(money_fields(each)) for each in MODELS) > 15
    assert len(RECORDS) > 40 and sum(len(money_fields(each)) for each in RECORDS) > 70
    assert {table.__tablename__ for table in TABLES} == {"prices", "price_readings", "decisions"}
    assert sum(map(len, TABLES.values())) == 6


def marked(hint: Any) -> Any:
    """A value of a money field's type with the mark in it."""
    if hint is Decimal:
        return Decimal(str(MARK))
    if isinstance(hint, type) and issubclass(hint, Money | UnitPrice):
        return Money(MARK) if hint is Money else UnitPrice(MARK, "USD", "h")
    return MARK


def planted(kind: type) -> Any:
    """A record with the mark in each field of money, whatever its constructor would say, and nothing elsewhere."""
    made = object.__new__(kind)
    for field in dataclasses.fields(kind):
        is_own = field.name in money_fields(kind)
        text = "AmountText" in str(field.type) or "str" in map(str, get_args(type_hints(kind)[field.name])[:1])
        object.__setattr__(made, field.name, (f"{MARK}" if text else marked(field.type)) if is_own else None)
    return made


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__qualname__)
def test_every_record_is_shown_without_its_money(kind: type) -> None:
    made = planted(kind)
    whole = str(to_jsonable_python({name: getattr(made, name) for name in money_fields(kind)}))
    assert shapes_in(whole)  # it is planted
    shown = shown_without_money({"view": [made, (made,)], "of": {"name": made}})
    for left in (shown["view"][0], shown["view"][1][0], shown["of"]["name"]):
        # Money itself is nothing.
        assert left is None or all(getattr(left, name) in (None, "", (), [], {}) for name in money_fields(kind))


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__qualname__)
def test_every_model_is_shown_without_its_money(kind: type[BaseModel]) -> None:
    made = kind.model_construct(**dict.fromkeys(money_fields(kind), MARK))
    assert shapes_in(repr(made))
    for shown in (shown_without_money([made]), shown_without_money({"a": {"b": made}})):
        assert not shapes_in(repr(shown))


@dataclass(frozen=True)
class ToyRow:
    """A view that gets a new field of money."""

    name: str
    rent: Amount
    texts: tuple[str, ...] = ()


TOY_FIELD = ToyRow("a", MARK, (f"{MARK} USD", "plain"))


def test_a_new_field_of_a_view_is_hidden_by_its_type() -> None:
    assert shown_without_money(TOY_FIELD) == ToyRow("a", None, (AMOUNT_HIDDEN, "plain"))  # type: ignore[arg-type]
    assert money_fields(ToyRow) == {"rent"}


NAMED = re.compile(r"(?:^|_)(?:usd|prices?|costs?|savings?|saved|credits?|fees?|capital)(?:_|$)")
NUMBERS = re.compile(r"\b(?:float|Decimal|int)\b")


def untyped(kinds: list[type]) -> list[str]:
    """Fields whose names speak of money, that are numbers, and have no type of money."""
    found = []
    for kind in kinds:
        fields = {f.name: str(f.type) for f in dataclasses.fields(kind)} if is_dataclass(kind) else {}
        own = money_fields(kind)
        found += [
            f"{kind.__qualname__}.{n}"
            for n, hint in fields.items()
            if NAMED.search(n) and NUMBERS.search(hint) and "Callable" not in hint and n not in own
        ]
    return found


def test_every_field_that_is_called_money_has_its_type() -> None:
    @dataclass
    class Forgotten:
        usd_per_day: float

    assert untyped([Forgotten]) == [f"{Forgotten.__qualname__}.usd_per_day"]
    assert set(untyped([each for each in classes() if is_dataclass(each)])) == set()


TEXTS = [
    formatting.format_money(MARK),
    formatting.format_money(MARK, "USD/h"),
    formatting.format_money(MARK, "EUR/GPU-hour"),
    formatting.format_money_change(MARK, 2 * MARK),
    formatting.format_money_change(None, MARK),
    formatting.format_monthly(MARK),
    formatting.format_monthly(-MARK),
    formatting.format_monthly_change(MARK),
    formatting.common_scale("USD", [MARK]).text(MARK),
    formatting.common_scale("USD", [1e-7], "cost_per_good_request").text(1e-7),
    str(Money(MARK)),
    str(Money(0.0042, "EUR")),
    str(UnitPrice(MARK, "USD", "GB")),
    f"USD {MARK}",
    f"$ {MARK}",
    f"€{MARK}",
]


def test_every_function_that_writes_money_is_tried() -> None:
    own = {name for name in vars(formatting) if name.startswith("format_mon")}
    assert own == {"format_money", "format_money_change", "format_monthly", "format_monthly_change"}


@pytest.mark.parametrize("text", TEXTS)
def test_an_amount_in_a_text_is_hidden_in_each_form(text: str) -> None:
    assert without_amounts({"a": [f"costs {text}, since 2026"]}) == {"a": [AMOUNT_HIDDEN]}
    assert shown_without_money((text, "plain")) == (AMOUNT_HIDDEN, "plain")
    page = without_numbers(f"<td>3 GPU</td><td>{text}</td>")
    assert NUMBER_HIDDEN in page and not shapes_in(page) and page.startswith("<td>3 GPU</td><td>")


def test_values_that_lost_their_types_are_known_by_unit_or_name() -> None:
    lost = {
        "usd": MARK,
        "totals": {"price_now": MARK, "broken": 3},
        "rows": [{"unit": "USD/h", "value": MARK}, {"unit": "s", "value": 2.0}],
    }
    assert shown_without_money(lost) == {
        "usd": None,
        "totals": {"price_now": None, "broken": 3},
        "rows": [{"unit": "USD/h", "value": None}, {"unit": "s", "value": 2.0}],
    }


def test_every_answer_of_the_archive_that_is_money_is_nothing() -> None:
    asks = {name: method.__wrapped__ for name, method in vars(Archive).items() if hasattr(method, "__wrapped__")}
    priced = {name for name, ask in asks.items() if holds_money(eval(ask.__annotations__["return"], ask.__globals__))}
    assert priced >= {"prices", "price_readings", "newest_readings", "accepted_price", "price_steps", "decisions", "compared_invoices"}
    assert {name for name in priced if name not in vars(ArchiveWithoutCosts)} == set()


def detail() -> dict[str, Any]:
    """A finding of a kind that everyone may see, with the mark in each of its fields of money."""
    made = provider_finding(
        "local-1core", "missing_data", "budget", since="2026-11-03", severity="warn", title="t", evidence="e", explanation="x"
    )
    moved = dataclasses.replace(
        made,
        prices=(PriceMove("local-1core", MARK, MARK),),
        ending=EndingHours("2027-01-01", MARK, MARK),
        credit=PromisedCredit(MARK, "2026-10"),
        explanation=f"skipped: {formatting.format_money(MARK)} of a budget",
        causes=(f"at {formatting.format_money(MARK, 'USD/h')}",),
    )
    return moved.to_dict()


def test_a_findings_fields_of_money_are_left_out_and_the_rest_can_be_read() -> None:
    kept = json_without_money(Finding, json.loads(json.dumps(detail())))
    assert (kept["prices"], kept["ending"], kept["credit"]["share"]) == ([], None, None)
    read = Finding.of(kept)
    assert read.title == "t" and read.credit == PromisedCredit(None, "2026-10")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    now = datetime(2026, 11, 20, tzinfo=timezone.utc)
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, campaign(folder / "results", repeats=1))
        first = archive.trials()[0]
        made = {"provider": "local-1core", "severity": "warn", "campaign_id": first.campaign_id, "series_key": first.series_key}
        archive.accept_price("local-1core", "on_demand", None, 1.0, date(2025, 6, 1), "contract", by="ada", why="signed")
        archive.record_readings([Reading("local-1core", "on_demand", None, "declared", "1", now, 1.0, "USD", "instance_hour", 1)])
        archive.save_decision(DecisionRecord("d-1", sorted(load().teams)[0], "training", "local-1core", 0.9, {}))
        archive.save_findings([FindingRecord(finding_id="f-money", kind="missing_data", headline="h", detail=detail(), **made)])
        archive.add_audit(
            who="ada",
            what="finding_acknowledged",
            subject="f-money",
            why=f"at {formatting.format_money(MARK)} we wait",
            detail={"usd": MARK},
        )
        with archive.engine.begin() as connection:
            # Rows of prices are never changed: what is planted is what a row could have been recorded with.
            for (trigger,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
                connection.exec_driver_sql(f'DROP TRIGGER "{trigger}"')
            for table, names in TABLES.items():
                columns = table.__table__.columns
                values = {n: {"usd": MARK} if isinstance(columns[n].type, JSON | PrintableJson) else MARK for n in names}
                assert connection.execute(update(table).values(**values)).rowcount > 0, table
    return folder


LEAKING = """
from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from plumbline.dashboard.rendering import PageRoutes
from plumbline.dashboard.site import Site
from tests.unit.dashboard.test_planted_money import TOY_FIELD


def router(site: Site) -> PageRoutes:
    routes = PageRoutes()

    @routes.page("/toy")
    def show_toy(request: Request) -> Response:
        RETURN

    return routes
"""
RULED = 'return site.pages.page(request, "message.html.j2", TOY_FIELD, title="Toy", text="; ".join(TOY_FIELD.texts))'
UNRULED = 'return JSONResponse({"rent": TOY_FIELD.rent})'


def read_everything(home: Path, may: bool) -> dict[str, str]:
    """The text of every address of the app, by its path."""
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        first = archive.trials()[0]
        document = archive.document(first.trial_id)
    assert document is not None
    trial = document.trial
    known = {"provider": "local-1core", "campaign_id": first.campaign_id, "trial_id": first.trial_id, "series_key": trial.series_key}
    known |= {"finding_id": "f-money", "workload": trial.workload.name, "team": sorted(load().teams)[0], "kind": trial.workload.kind}
    known |= {"metric": "step_time", "number": "0"}
    app = create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports", may_see_money=lambda: may)
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        answers = {route.path: client.get(address_of(route, known)) for route in routes_of(app)}
    broken = {path: answer.status_code for path, answer in answers.items() if answer.status_code == 500}
    assert not broken
    return {path: answer.text for path, answer in answers.items()}


@pytest.mark.fault("a marked amount is in every field of money", ends="left out or refused", keeps="it from readers without costs")
def test_no_address_answers_with_a_planted_amount(home: Path) -> None:
    shown = {may: {path for path, text in read_everything(home, may).items() if shapes_in(text)} for may in (True, False)}
    assert shown[False] == set()
    assert shown[True] >= {"/prices", "/prices.json", "/findings/{finding_id}", "/findings/{finding_id}.json"}


@pytest.fixture
def toy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "toy_money.py").write_text(LEAKING.replace("RETURN", request.param))
    monkeypatch.setattr(pages, "__path__", [*pages.__path__, str(tmp_path)])
    yield request.param
    sys.modules.pop(f"{pages.__name__}.toy_money", None)


@pytest.mark.parametrize("toy", [RULED, UNRULED], ids=["by the rule", "past it"], indirect=True)
def test_a_page_with_a_new_field_is_covered_without_an_edit_and_one_past_the_rule_is_found(home: Path, toy: str) -> None:
    leaks = {path for path, text in read_everything(home, False).items() if shapes_in(text)}
    assert leaks == (set() if toy == RULED else {"/toy", "/toy.json"})
    assert shapes_in(read_everything(home, True)["/toy.json"])


def test_no_page_answers_past_the_rule() -> None:
    found = {
        path.name: re.findall(r"\b(?:JSON|HTML|PlainText)Response\(", path.read_text()) for path in Path(pages.__file__).parent.glob("*.py")
    }
    assert len(found) > 12 and not any(found.values()), found
