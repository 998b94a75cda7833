"""The message of what no campaign showed first: a driver that changed between two, a price."""

from __future__ import annotations

from dataclasses import replace

from tests.golden import Golden
from tests.unit.results.test_finding import NOTICED

from plumbline.alerts import render


def test_it_names_the_day_and_no_workload_nor_baseline_that_it_does_not_have(golden: Golden) -> None:
    message = render(NOTICED)
    golden("alerts.title_between_campaigns", message.title)
    assert dict(message.fields) == {"Provider": "lab", "Workload": "all workloads", "Since": "2026-11-21", "State": "open"}
    assert "None" not in message.text and "plumbline compare" not in message.text


def test_once_a_campaign_measured_it_the_two_are_compared() -> None:
    key = "training/gpt@1/h1/torch/lab/here/host"
    seen = replace(NOTICED, seen_in=("od-1",), baseline_campaigns=("2026-11",), series_key=key, series=(key,), standing=(key,))
    assert f"compare --finding {seen.finding_id} " in render(seen).text
