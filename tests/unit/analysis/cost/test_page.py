"""The page on cost: what it shows can be declared, and its table is what its plans come to."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import get_args

from plumbline.analysis.cost.bill import ITEMS
from plumbline.analysis.cost.planned_bill import plan_bills
from plumbline.declarations import Provider, load
from plumbline.declarations.cost_plan import CostPlan, PlanLine
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.loader import load_file
from plumbline.declarations.providers.rates import RateItem
from plumbline.declarations.yaml_source import read_yaml

PAGE = (REPOSITORY / "docs" / "cost.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PLANS = REPOSITORY / "include" / "config" / "plans"


def test_the_rates_as_shown_can_be_declared(tmp_path: Path) -> None:
    (shown,) = (block for block in BLOCKS if block.startswith("rates:"))
    (tmp_path / "p.yaml").write_text(shown)
    declared, _ = read_yaml(tmp_path / "p.yaml")
    place = {"name": "p", "cloud": "c", "region": "r", "instance_type": "i", "accelerator": {"kind": "nvidia", "count": 8}}
    found = Provider.model_validate_json(json.dumps(place | {"launcher": {"kind": "simulated", "seed": 1}} | declared))
    assert {rate.item for rate in found.rates} == set(get_args(RateItem))
    assert found.overhead and "85.14" in shown and found.invoices[0].amount.amount / found.invoices[0].instance_hours == 1234.5 / 14.5


def test_the_plan_as_shown_can_be_read_and_a_typed_line_too(tmp_path: Path) -> None:
    (shown,) = (block for block in BLOCKS if block.startswith("name:"))
    (tmp_path / "plan.yaml").write_text(shown)
    assert len(load_file(tmp_path / "plan.yaml", CostPlan).options) == 2
    typed = re.findall(r'--line "([^"]+)"', PAGE)
    assert [PlanLine.written(text).item for text in typed] == ["gpu", "egress"]


def test_the_table_is_what_the_plans_come_to() -> None:
    providers = load().providers
    rows = []
    for name in ("example-training-500h", "example-chat-50m-requests"):
        for option in plan_bills(load_file(PLANS / f"{name}.yaml", CostPlan), providers, date(2026, 11, 21)):
            for n, line in enumerate(option.bill.lines, 1):
                total = f"**{option.bill.total}**" if n == len(option.bill.lines) else ""
                rows.append((option.name if n == 1 else "", line.item, str(line.unit_price), str(line.cost), total))
    shown = [[cell.strip() for cell in row.strip("|\n").split("|")] for row in PAGE.splitlines() if "USD/" in row and row.startswith("|")]
    assert [(row[0], row[1], *row[3:]) for row in shown if len(row) == 6] == rows


def test_every_item_is_explained() -> None:
    table = PAGE[PAGE.index("## The lines") : PAGE.index("## Declare")]
    assert [item for item in ITEMS if item != "hosted" and f"`{item}`" not in table] == []
