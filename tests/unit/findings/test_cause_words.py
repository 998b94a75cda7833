"""A pooled finding: its members by their kind, its cost from their rates, and its interval on the side to which the metric moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.data.finding_examples import finding_examples

from plumbline.analysis.drift.pooled import SeriesShift
from plumbline.declarations import Alerts, load
from plumbline.declarations.alerts import RentedVolume
from plumbline.findings.cause import _member, _runs, slowdown
from plumbline.findings.monthly_cost import monthly_cost
from plumbline.findings.types import type_of
from plumbline.metrics.formatting import common_scale
from plumbline.presentation.metric_history import _band
from plumbline.results.finding import Finding, Member

KEY = "training/gpt@1/h2/torch/local-2core/here/host-2core"


def shift(key: str, metric: str = "step_time", direction: str = "lower_is_better") -> SeriesShift:
    return SeriesShift("local-2core", key, "gpt", "training", "2026-10", 0.0787, 0.01, 0.05, metric, direction=direction)


def pooled(metric: str, effect: float) -> Finding:
    cause = finding_examples(KEY, "2026-11", "2026-10")["cause"]
    return replace(
        cause, members=(Member(metric, "", effect, verdict="regressed", series_key=KEY),), effect=0.082, ci_low=0.06, ci_high=0.1
    )


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        (("torch",), "trainings"),
        (("container",), "containers"),
        (("script", "script"), "training scripts"),
        (("torch", "container"), "workloads"),
    ],
)
def test_members_are_called_by_their_kind(engines: tuple[str, ...], expected: str) -> None:
    shifts = [shift(KEY.replace("torch", engine)) for engine in engines]
    assert _runs(cast(Any, SimpleNamespace(kind="training", shifts=shifts))) == expected


def test_a_member_is_named_by_its_kind_and_a_rate_falls() -> None:
    disk = _member(shift(KEY.replace("torch", "container"), "tokens_per_second", "higher_is_better"))
    assert "container gpt: tokens per second −7.6 %" in disk.text and slowdown(disk) == pytest.approx(0.0819, abs=1e-3)


def test_the_interval_of_a_rate_that_fell_lies_below_its_baseline() -> None:
    scale = common_scale("tokens/s", [61600.0], "tokens_per_second")
    fell, rose = (
        _band(pooled("tokens_per_second", -0.075), 61.6, scale, differences=False),
        _band(pooled("step_time", 0.08), 61.6, scale, differences=False),
    )
    assert fell is not None and max(fell) < 61.6 and fell == (pytest.approx(61.6 / 1.1), pytest.approx(61.6 / 1.06))
    assert rose is not None and min(rose) > 61.6


def test_a_fall_of_the_rate_of_each_device_costs_money_and_an_own_metric_is_not_said_to_cost_nothing() -> None:
    volumes = Alerts(
        volumes=(RentedVolume.model_construct(provider="local-*", workload=None, time_per_month=730 * 3600.0, purchase="on_demand"),)
    )
    declared = load().providers["local-2core"]
    price = declared.price_list[0].model_copy(update={"price": 2.0, "since": date(2026, 1, 1), "until": None, "purchase": "on_demand"})
    place = declared.model_copy(update={"prices": (price,)})
    cost = monthly_cost(replace(pooled("tokens_per_second_per_device", -0.2), provider="local-2core"), volumes, place, date(2026, 11, 20))
    assert cost.usd == pytest.approx(730 * 2 * 0.25)
    own = monthly_cost(replace(pooled("disk_read_iops", -0.2), provider="local-2core"), volumes, place, date(2026, 11, 20))
    assert own.usd is None and own.text.startswith("cost unknown: whether disk_read_iops sets")


def test_a_pooled_finding_names_its_providers() -> None:
    for name in ("cause", "shared_change"):
        finding = replace(finding_examples(KEY, "2026-11", "2026-10")[name], provider="fleet")
        assert dict(type_of(finding).about(finding))["Providers"] == "local-2core, other"
