"""The Grafana dashboard as a file: what it declares, what it refers to, and that it counts launches as the scorecards do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.grafana_macros import used_variables

from plumbline.archive.schema import Base
from plumbline.declarations.promises.judging.launches import NOT_STARTED, OPERATOR_FAULTS, UNPROVEN

FILE = Path(__file__).resolve().parents[3] / "k8s" / "grafana" / "plumbline.json"


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def queries(dashboard: dict[str, Any]) -> list[str]:
    """Every query: of the panels, and of the variables."""
    found = [target["rawSql"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return found + [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]


def test_panels_have_ids_of_their_own_and_do_not_lie_on_each_other(dashboard: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


def test_every_variable_that_is_used_is_declared_and_the_other_way_round(dashboard: dict[str, Any]) -> None:
    declared = {v["name"] for v in dashboard["templating"]["list"]}
    assert used_variables(json.dumps(dashboard)) == declared


def test_a_variable_asks_only_for_those_before_it(dashboard: dict[str, Any]) -> None:
    before: set[str] = set()
    for variable in dashboard["templating"]["list"]:
        assert used_variables(json.dumps(variable.get("query", ""))) <= before, variable["name"]
        before.add(variable["name"])


def test_every_panel_says_what_it_shows_and_takes_the_chosen_archive(dashboard: dict[str, Any]) -> None:
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith("."), panel["title"]
        for place in (panel, *panel["targets"]):
            assert place["datasource"] == {"type": "grafana-postgresql-datasource", "uid": "${datasource}"}, panel["title"]


def test_a_chosen_text_never_reaches_a_query_unquoted(dashboard: dict[str, Any]) -> None:
    for sql in queries(dashboard):
        for name in used_variables(sql):
            assert re.findall(r"\$\{?" + name + r"\b[^}]*\}?", sql) == ["${" + name + ":sqlstring}"] * sql.count(name + ":sqlstring"), sql


def test_queries_only_read_and_name_tables_of_the_archive(dashboard: dict[str, Any]) -> None:
    for sql in queries(dashboard):
        assert sql.startswith("SELECT "), sql
        assert ";" not in sql
        for table in re.findall(r"\b(?:FROM|JOIN) ([a-z_]+)", re.sub(r"extract\([^)]*\)", "", sql)):
            assert table in Base.metadata.tables, f"{table} in {sql}"


def test_launches_are_counted_as_the_scorecards_do(dashboard: dict[str, Any]) -> None:
    (sql,) = [s for s in queries(dashboard) if '"launches"' in s]
    lists = [frozenset(re.findall(r"'(\w+)'", inside)) for inside in re.findall(r"IN \(([^)$]+)\)", sql)]
    assert set(lists) == {NOT_STARTED, OPERATOR_FAULTS | UNPROVEN}
