"""Plans as people write them down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.golden import Golden

from plumbline.declarations import DeclarationError
from plumbline.declarations.cost_plan import CostPlan, PlanLine
from plumbline.declarations.loader import load_file

LINE = {"item": "gpu", "quantity": "500 instance-hours", "price": "98.32 USD/instance-hour", "source": "list price"}


def line(**changed: Any) -> PlanLine:
    given = {name: value for name, value in (LINE | changed).items() if value is not None}
    return PlanLine.model_validate_json(json.dumps(given))


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("500 instance-hours", (500, "instance-hour")),
        ("50,000,000 requests", (5e7, "request")),
        ("1.5 h", (1.5, "hour")),
        ("3 GB", (3, "GB")),
    ],
)
def test_quantities_are_read_with_their_unit(quantity: str, value: tuple[float, str]) -> None:
    assert line(quantity=quantity).quantity == value


@pytest.mark.parametrize(
    ("price", "value"),
    [
        ("98.32 USD/h", (98.32, "USD", "hour")),
        ("0.60 USD/1M tokens", (6e-7, "USD", "token")),
        ("1 EUR/1k requests", (1e-3, "EUR", "request")),
    ],
)
def test_prices_are_read_with_their_currency_and_unit(price: str, value: tuple[float, str, str]) -> None:
    assert line(price=price).price == value


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"quantity": 500}, ("quantity",)),
        ({"quantity": "5,00 h"}, ("quantity",)),
        ({"quantity": "-5 h"}, ("quantity",)),
        ({"price": "98.32"}, ("price",)),
        ({"price": "98.32 dollars/h"}, ("price",)),
        ({"item": "people"}, ("item",)),
        ({"price": None, "source": None}, ()),
        ({"provider": "p"}, ()),
        ({"source": None}, ()),
        ({"on": "2026-01-01"}, ()),
        ({"price": None, "provider": "p"}, ()),
    ],
)
def test_an_invalid_line_is_refused(changed: dict[str, Any], field: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as error:
        line(**changed)
    assert [problem["loc"] for problem in error.value.errors()] == [field]


def test_a_refused_line_says_what_was_expected(golden: Golden) -> None:
    messages = []
    for changed in (
        {"quantity": 500},
        {"price": "98.32"},
        {"price": None, "source": None},
        {"provider": "p"},
        {"source": None},
        {"on": "2026-01-01"},
        {"price": None, "provider": "p"},
    ):
        with pytest.raises(ValidationError) as error:
            line(**changed)
        messages += [problem["msg"] for problem in error.value.errors()]
    golden("declarations.refused_plan_lines", "\n".join(messages))


def test_a_line_may_be_typed() -> None:
    typed = PlanLine.written("egress (model weights): 30 GB at 0.09 USD/GB")
    assert (typed.item, typed.what, typed.quantity, typed.price) == ("egress", "model weights", (30, "GB"), (0.09, "USD", "GB"))
    with pytest.raises(ValueError, match='"gpu 500"'):
        PlanLine.written("gpu 500")


def test_two_options_have_two_names() -> None:
    option = {"name": "a", "lines": [LINE]}
    with pytest.raises(ValidationError, match='"a"'):
        CostPlan.model_validate_json(json.dumps({"name": "p", "options": [option, option]}))


def test_a_file_s_problems_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("name: p\noptions:\n  - name: a\n    lines:\n      - {item: gpu, quantity: 500, price: 3 USD/h, source: me too}\n")
    with pytest.raises(DeclarationError) as raised:
        load_file(path, CostPlan)
    assert [(problem.line, problem.field) for problem in raised.value.problems] == [(5, "options[0].lines[0].quantity")]
    with pytest.raises(DeclarationError, match=r"nothing\.yaml:1 "):
        load_file(tmp_path / "nothing.yaml", CostPlan)
