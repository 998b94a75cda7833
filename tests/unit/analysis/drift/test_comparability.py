from __future__ import annotations

from typing import Any

import pytest
from tests.golden import Golden

from plumbline.analysis.drift.compare import find_incomparabilities

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
    found = find_incomparabilities([sample("b", VALUES)], sample("c", VALUES, key=other))
    assert any(named in problem for problem in found)


def test_the_same_series_and_providers_on_request_are_fine(sample: Any) -> None:
    assert find_incomparabilities([sample("b", VALUES)], sample("c", VALUES)) == ()
    elsewhere = sample("c", VALUES, key="training/gpt@1/h1/torch/other/there/host-1core")
    assert find_incomparabilities([sample("b", VALUES)], elsewhere, across_providers=True) == ()


def test_simulated_and_measured_never_mix(sample: Any) -> None:
    assert "simulated" in find_incomparabilities([sample("b", VALUES)], sample("c", VALUES, simulated=True))[0]


def test_imported_and_measured_never_mix(sample: Any) -> None:
    (found,) = find_incomparabilities([sample("b", VALUES)], sample("c", VALUES, imported=True))
    assert found.startswith("source: ") and all(source in found for source in ("measured in b", "imported in c"))
    assert find_incomparabilities([sample("b", VALUES, imported=True)], sample("c", VALUES, imported=True)) == ()


SPEC = {
    "kind": "inference",
    "name": "chat",
    "version": 1,
    "model": {"precision": "bf16", "layers": 2},
    "requests": {"output_tokens": {"constant": 256, "normal": None}},
    "server": {"client_placement": "same_node"},
    "phases": [{"name": "steady", "rate": 8.0}],
}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": {"precision": "fp8", "layers": 2}}, "model.precision: bf16 in b, fp8 in c: cheaper arithmetic is another product"),
        ({"model": {"precision": "bf16", "layers": 3}}, "model.layers: 2 in b, 3 in c: another model computes something else"),
        (
            {"requests": {"output_tokens": {"constant": 128, "normal": None}}},
            "requests.output_tokens.constant: 256 in b, 128 in c: longer answers take longer",
        ),
        (
            {"server": {"client_placement": "other_region"}},
            "server.client_placement: same_node in b, other_region in c: the network between client and server is part of the numbers",
        ),
        ({"phases": [{"name": "steady", "rate": 16.0}]}, "phases[0].rate: 8.0 in b, 16.0 in c: another load is another question"),
        ({"seed": 3}, "seed: absent in b, 3 in c: the trials were asked for something else"),
    ],
)
def test_what_was_asked_is_compared_field_by_field(sample: Any, changed: dict[str, Any], named: str) -> None:
    assert find_incomparabilities([sample("b", VALUES, spec=SPEC)], sample("c", VALUES, spec={**SPEC, **changed})) == (named,)


def test_the_same_spec_and_a_name_that_the_series_tells_are_fine(sample: Any) -> None:
    again = {**SPEC, "phases": [dict(SPEC["phases"][0])]}  # type: ignore[index]
    assert find_incomparabilities([sample("b", VALUES, spec=SPEC)], sample("c", VALUES, spec=again)) == ()
    assert find_incomparabilities([sample("b", VALUES)], sample("c", VALUES, spec=SPEC)) == ()


def test_of_one_campaign_the_providers_tell_the_sides_apart(sample: Any) -> None:
    elsewhere = sample("c", VALUES, key="training/gpt@2/h1/torch/other/there/host-1core")
    (found,) = find_incomparabilities([sample("c", VALUES)], elsewhere, across_providers=True)
    assert found.startswith("version: ") and all(side in found for side in ("1 in local-2core", "2 in other"))


def test_a_campaign_is_not_its_own_baseline_and_nothing_is_not_compared(sample: Any, golden: Golden) -> None:
    pairs = (("c", VALUES, "c", VALUES), ("b", VALUES, "c", {}), ("b", {}, "c", VALUES))
    problems = [find_incomparabilities([sample(before, one)], sample(after, other))[0] for before, one, after, other in pairs]
    golden("analysis.nothing_to_compare", "\n".join(problems))
