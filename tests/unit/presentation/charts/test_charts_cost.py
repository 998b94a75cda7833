"""The charts of costs hold what the arithmetic says, name what they draw, and are left out where there is nothing to draw."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.unit.analysis.cost.test_forecast import CHAT, DAY, GPT, REQUESTS, SERVED, TRAINED, economics, provider, spot_economics, trials

from plumbline.analysis.cost.forecast import cost_forecast
from plumbline.analysis.cost.hosted_forecast import hosted_forecast
from plumbline.analysis.cost.spot_forecast import spot_forecast
from plumbline.declarations.economics import Economics
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.costs import forecast_charts

SAID: dict[str, Any] = {
    "utilisation": {"low": "40%", "expected": "50%", "high": "80%"},
    "price": {"low": "0.9x", "expected": "1x", "high": "1.1x"},
    "volume": {"requests": 50_000_000},
    "engineering": "15000 USD/month",
}


def charts_of(workload: Any, numbers: dict[str, float], made: Economics, **more: Any) -> dict[str, Chart]:
    place, twice = provider(**more), trials(workload, numbers, numbers)
    rest = (place, workload, twice, made, DAY)
    found = forecast_charts([cost_forecast(*rest)], [spot_forecast(*rest)], [hosted_forecast(*rest)])
    return {chart.name.removeprefix(f"{workload.kind}-{workload.name}-"): chart for chart in found}


def test_of_inference() -> None:
    dear = REQUESTS | {"request": "5 USD/1k requests"}
    charts = charts_of(CHAT, SERVED, economics(SAID, hosted=[dear]))
    assert set(charts) == {
        "scenarios",
        "cluster-a-tornado",
        "cluster-a-parts",
        "cluster-a-break-even-volume",
        "cluster-a-break-even-utilisation",
    }
    for chart in charts.values():
        json.dumps([chart.data, chart.layout], allow_nan=False)
        assert chart.section == "cost" and chart.title and chart.caption
    cheaper, dearer = charts["cluster-a-tornado"].data
    # 36 USD/h at 10/s: 2,000 USD for a million at half use; at 40 % 2,500, at 80 % 1,250. The widest bar is drawn on top, which is last.
    assert (dearer["y"][-1], dearer["text"][-1], dearer["x"][-1]) == ("utilisation", "40 %", pytest.approx(500.0))
    assert (cheaper["text"][-1], cheaper["x"][-1]) == ("80 %", pytest.approx(-750.0))
    assert dearer["marker"]["pattern"]["shape"] and not cheaper["marker"]["pattern"]["shape"]
    expected = sum(part["x"][1] for part in charts["cluster-a-parts"].data)
    assert expected == pytest.approx(2000.0 + 300.0)
    own = [line for line in charts["cluster-a-break-even-volume"].data if line.get("mode") == "lines"]
    assert [re.findall(r"\d+ %|by-requests", line["name"]) for line in own] == [["50 %"], ["40 %"], ["80 %"], ["by-requests"]]
    assert len({line["line"]["dash"] for line in own}) == 4
    marks = [mark for mark in charts["cluster-a-break-even-volume"].data if mark.get("mode") == "markers"]
    assert marks[0]["x"][0] == pytest.approx(15_000 / (0.005 - 0.002), rel=1e-5)


def test_of_training() -> None:
    charts = charts_of(GPT, TRAINED, spot_economics(run={"time": "100h"}))
    # Nothing but the run and the interruptions is declared: no driver has a range.
    assert set(charts) == {"scenarios", "cluster-a-parts", "cluster-a-spot"}
    spot, on_demand, declared, even = charts["cluster-a-spot"].data
    assert (spot["name"], on_demand["name"], declared["name"], even["name"]) == ("spot", "on demand", "declared", "break-even")
    assert on_demand["y"][0] == on_demand["y"][1] == pytest.approx(even["y"][0], rel=1e-4)
    assert spot["y"] == sorted(spot["y"]) and max(spot["y"]) <= 3 * on_demand["y"][0]
    assert "not declared: volume, utilisation" in charts["cluster-a-parts"].caption


def test_without_a_volume_there_is_no_utilisation_to_find() -> None:
    without = {name: value for name, value in SAID.items() if name != "volume"}
    charts = charts_of(CHAT, SERVED, economics(without, hosted=[REQUESTS]))
    assert "cluster-a-break-even-volume" in charts and "cluster-a-break-even-utilisation" not in charts


def test_what_has_no_price_has_no_chart() -> None:
    assert charts_of(CHAT, SERVED, economics(SAID, hosted=[REQUESTS]), prices=[]) == {}
    assert charts_of(GPT, TRAINED, spot_economics(), prices=[]) == {}
