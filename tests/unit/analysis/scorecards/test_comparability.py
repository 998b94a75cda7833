"""Which columns cannot be put side by side, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.unit.scorecards.made import ASKED, CONDITIONS, launched, number

from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.analysis.scorecards.scorecard import Scorecard, scorecard


def card(provider: str, *changes: dict[str, Any], **changed: Any) -> Scorecard:
    """A card of one trial per entry of `changes` (two equal ones if none), each with what is `changed` for all."""
    return scorecard([launched(i, 60.0, provider=provider, **{**changed, **c}) for i, c in enumerate(changes or ({}, {}))])


def test_cards_of_the_same_question_are_comparable() -> None:
    assert incomparable([card("a"), card("b"), card("a", kind="inference", workload="chat")]) == ()
    assert incomparable([]) == ()


def asked(**fields: Any) -> Any:
    changed = {name.replace("__", "."): value for name, value in fields.items()}
    return replace(CONDITIONS, asked=tuple((name, changed.get(name, value)) for name, value in ASKED))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": 2}, "version 1 on a; version 2 on b: a workload's version is raised when what it measures changes"),
        ({"conditions": replace(CONDITIONS, source="simulated")}, "measured on a; simulated on b: the two never mix"),
        ({"conditions": replace(CONDITIONS, protocol="h3")}, "protocol h2 on a; protocol h3 on b: the harness measures differently"),
        (
            {"conditions": replace(CONDITIONS, engine="jax")},
            "engine torch on a; engine jax on b: a different engine is a different product",
        ),
        ({"conditions": asked(precision="fp8")}, "precision bf16 on a; precision fp8 on b: cheaper arithmetic is another product"),
        (
            {"conditions": asked(server__client_placement="other_region")},
            "server.client_placement same_node on a; server.client_placement other_region on b: the network between client and server is part "
            "of the numbers",
        ),
        (
            {"conditions": asked(requests__output_tokens__constant=128)},
            "requests.output_tokens.constant 256 on a; requests.output_tokens.constant 128 on b: longer answers take longer",
        ),
    ],
)
def test_what_differs_is_refused_with_both_values(changed: dict[str, Any], said: str) -> None:
    (found,) = incomparable([card("a"), card("b", **changed)])
    assert (found.reason, found.weight, found.providers) == (said, "refused", ("a", "b"))


def test_trials_of_one_card_that_were_asked_for_different_things_are_told() -> None:
    (found,) = incomparable([card("a", {}, {"conditions": asked(precision="fp8")})])
    assert (found.providers, found.weight) == (("a",), "refused")
    assert all(value in found.reason for value in ("bf16 on a", "fp8 on a"))


def test_degraded_trials_and_months_in_between_are_cautions() -> None:
    failed = {"status": "failed", "failure_class": "timeout", "reasons": ("timeout: no end in sight",)}
    noisy = card("a", {}, {"status": "degraded", "reasons": ("cpu_pressure: 61 %",)}, failed)
    late = card("b", started=date(2027, 1, 20))
    found = incomparable([noisy, late, card("c", version=2)])
    assert [i.weight for i in found] == ["refused", "caution", "caution"]
    assert found[1].providers == ("a",) and "cpu_pressure: 61 %" in found[1].reason
    assert found[2].providers == ("a", "c", "b") and all(value in found[2].reason for value in ("61 days", "2026-11-20", "2027-01-20"))
    assert incomparable([card("a"), card("b", started=date(2026, 12, 20))]) == (), "a month is one campaign"


def test_answers_of_another_length_are_refused_although_the_same_was_asked() -> None:
    def chat(provider: str, tokens: float) -> Scorecard:
        rates = (number("output_token_throughput", tokens * 8), number("request_throughput", 8.0))
        return card(provider, kind="inference", workload="chat", metrics=rates)

    (found,) = incomparable([chat("a", 256), chat("b", 200)])
    assert (found.weight, found.providers) == ("refused", ("a", "b"))
    assert all(value in found.reason for value in ("256 tokens", "200 tokens"))
    assert incomparable([chat("a", 256), chat("b", 250)]) == ()


def test_a_card_without_usable_trials_has_nothing_to_compare() -> None:
    assert incomparable([card("a"), card("b", status="failed", failure_class="timeout", conditions=None)]) == ()
