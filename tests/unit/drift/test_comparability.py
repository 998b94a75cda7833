from __future__ import annotations

from typing import Any

import pytest

from plumbline.drift.comparability import problems

VALUES = {"step_time": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ("inference/gpt@1/h1/torch/local-2core/here/host-2core", "kind: training in b, inference in c"),
        ("training/gpt@2/h1/torch/local-2core/here/host-2core", "version: 1 in b, 2 in c"),
        ("training/gpt@1/h2/torch/local-2core/here/host-2core", "protocol"),
        ("training/gpt@1/h1/jax/local-2core/here/host-2core", "engine"),
        ("training/gpt@1/h1/torch/local-1core/here/host-2core", "provider"),
    ],
)
def test_every_difference_is_named_with_both_values(sample: Any, other: str, named: str) -> None:
    found = problems([sample("b", VALUES)], sample("c", VALUES, key=other))
    assert any(named in problem for problem in found)


def test_the_same_series_and_providers_on_request_are_fine(sample: Any) -> None:
    assert problems([sample("b", VALUES)], sample("c", VALUES)) == ()
    elsewhere = sample("c", VALUES, key="training/gpt@1/h1/torch/other/there/host-1core")
    assert problems([sample("b", VALUES)], elsewhere, across_providers=True) == ()


def test_simulated_and_measured_never_mix(sample: Any) -> None:
    assert "simulated" in problems([sample("b", VALUES)], sample("c", VALUES, simulated=True))[0]


def test_a_campaign_is_not_its_own_baseline_and_nothing_is_not_compared(sample: Any) -> None:
    assert "part of the baseline" in problems([sample("c", VALUES)], sample("c", VALUES))[0]
    assert "no believed number in c" in problems([sample("b", VALUES)], sample("c", {}))[0]
    assert "no believed number in b" in problems([sample("b", {})], sample("c", VALUES))[0]
