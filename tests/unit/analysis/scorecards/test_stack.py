"""The class of a comparison: which stacks are one, what they differ in, and what limits a comparison besides."""

from __future__ import annotations

from dataclasses import replace

from tests.data.decision_trials import preference, repeats
from tests.golden import Golden
from tests.unit.scorecards.made import CONDITIONS, launched

from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.prices.book import InstanceShare
from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.analysis.scorecards.comparison_class import FACTS, IMAGE, ComparedTrial, ComparisonClass, classify_comparison
from plumbline.analysis.scorecards.scorecard import scorecards
from plumbline.analysis.trial_sample import Conditions
from plumbline.words.comparisons import comparison_line, limitation_text

DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32


def with_stack(accelerator: str | None = None, **stack: str) -> Conditions:
    named = {"image": IMAGE, **{name.removesuffix(".version"): name for name in FACTS}}
    return replace(CONDITIONS, stack=tuple((named[name], value) for name, value in stack.items()), accelerator=accelerator)


def of(**providers: Conditions | None) -> ComparisonClass:
    return classify_comparison(ComparedTrial(name, conditions, None) for name, conditions in providers.items())


def test_one_image_and_one_version_are_the_standardised_class() -> None:
    same = with_stack(image=DIGEST, torch="2.13.0")
    found = of(a=same, b=same)
    assert (found.kind, found.differences, found.limitations) == ("standardised", (), ())
    assert of(a=with_stack(torch="2.13.0"), b=with_stack(torch="2.13.0")).kind == "standardised", "no image on either"


def names(found: ComparisonClass) -> list[str]:
    """What the stacks differ in."""
    return [each.split()[0] for each in found.differences]


def test_another_version_is_the_native_class_and_is_named(golden: Golden) -> None:
    found = of(a=with_stack(image=DIGEST, torch="2.9.0"), b=with_stack(image=OTHER, torch="2.13.0"))
    assert found.kind == "native" and names(found) == ["torch"]
    golden("analysis.comparison_class", comparison_line(found))


def test_an_engine_that_only_one_has_and_an_image_alone_are_differences_too() -> None:
    (engine,) = of(a=with_stack(torch="2.9.0", vllm="0.11"), b=with_stack(torch="2.9.0")).differences
    assert engine.startswith("vllm 0.11 (a) ") and engine.endswith(" none (b)")
    assert of(a=with_stack(image=DIGEST), b=with_stack(image=OTHER)).differences == (f"image {'ab' * 6} (a) against {'cd' * 6} (b)",)


def test_a_provider_whose_own_trials_ran_two_stacks_is_named_with_both() -> None:
    old, new = with_stack(torch="2.9.0"), with_stack(torch="2.13.0")
    found = classify_comparison([ComparedTrial("a", old, None), ComparedTrial("a", new, None), ComparedTrial("b", new, None)])
    (difference,) = found.differences
    assert found.kind == "native" and all(one in difference for one in ("2.13.0 (a, b)", "2.9.0 (a)"))


def test_without_facts_or_another_provider_there_is_no_class() -> None:
    assert of(a=with_stack(torch="2.9.0"), b=with_stack()).kind is of(a=with_stack(torch="2.9.0"), b=None).kind is None
    assert of(a=with_stack(torch="2.9.0")).kind is None and comparison_line(of(a=with_stack(torch="2.9.0"))) == ""


def test_accelerators_that_differ_are_a_limitation_of_either_class() -> None:
    found = of(a=with_stack("H100", torch="2.9.0"), b=with_stack("H200", torch="2.9.0"))
    assert found.kind == "standardised" and [each.code for each in found.limitations] == ["gpu_class"]
    assert all(one in comparison_line(found) for one in ("H100 (a)", "H200 (b)"))
    assert of(a=with_stack("H100", torch="2.9.0"), b=with_stack("H100", torch="2.9.0")).limitations == ()


def test_a_share_of_an_instance_sold_whole_is_a_limitation_of_costs_alone() -> None:
    measured = [ComparedTrial("a", None, InstanceShare(1, 8, assumed=True)), ComparedTrial("b", None, InstanceShare(1, 8))]
    assert [each.code for each in classify_comparison(measured).limitations] == ["other_gpus_alike"]
    (limited,) = classify_comparison(measured).limitations
    text = limitation_text(limited)
    assert "a (" in text and "b (" not in text and "1 of 8" in text
    assert classify_comparison(measured, costs=False).limitations == ()


def test_a_decision_carries_the_class_of_those_that_are_eligible() -> None:
    full = {"time_to_first_token": 0.1, "cost_per_1k_requests": 1.0}
    a, b = (
        [replace(t, conditions=conditions) for t in repeats(name, full, full)]
        for name, conditions in (("a", with_stack(torch="2.9.0")), ("b", with_stack(torch="2.13.0")))
    )
    c = [replace(t, conditions=with_stack(torch="2.7.1")) for t in repeats("c", {"time_to_first_token": 0.1})]  # has no cost
    decided = decide("t", "inference", preference({"time_to_first_token": 0.5, "cost_per_1k_requests": 0.5}), [*a, *b, *c])
    assert decided.comparison == of(a=with_stack(torch="2.9.0"), b=with_stack(torch="2.13.0"))
    charged = [replace(t, share=InstanceShare(1, 8, assumed=True)) for t in a]
    by_cost, by_time = (
        decide("t", "inference", preference(weights), [*charged, *b]).comparison.limitations
        for weights in ({"cost_per_1k_requests": 1.0}, {"time_to_first_token": 1.0})
    )
    assert [each.code for each in by_cost] == ["other_gpus_alike"] and by_time == ()


def test_scorecards_say_with_a_code_what_limits_their_comparison() -> None:
    a = launched(1, conditions=with_stack("H100", torch="2.9.0"), share=InstanceShare(1, 8, assumed=True))
    b = launched(1, provider="b", conditions=with_stack("H200", torch="2.13.0"))
    found = {each.code: each for each in incomparable(scorecards([a, b])) if each.code}
    assert set(found) == {"native_stack", "gpu_class", "other_gpus_alike"}
    assert {each.weight for each in found.values()} == {"caution"}
    same = launched(1, provider="b", conditions=with_stack("H100", torch="2.9.0"))
    assert not [each for each in incomparable(scorecards([replace(a, share=None), same])) if each.code]
