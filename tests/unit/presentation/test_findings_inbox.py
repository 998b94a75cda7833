"""A finding's headline in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.alerts.test_message import FINDING
from tests.unit.results.test_finding import NOTICED

from plumbline.presentation.findings_inbox import headline_in_words, what_happened

INFERENCE = {"workload_kind": "inference", "workload": "chat"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"effect": 0.079}, "local-2core trains gpt 7.9 % slower since November 2026"),
        ({"effect": -0.079}, "local-2core trains gpt 7.9 % faster since November 2026"),
        ({"effect": -0.2, "metric": "tokens_per_second"}, "local-2core trains gpt 20 % slower since November 2026"),
        ({"effect": 0.2, "metric": "goodput", **INFERENCE}, "local-2core serves chat 20 % faster since November 2026"),
        ({"effect": 0.1, "metric": "restart_penalty"}, "local-2core: restart penalty of gpt 10 % higher since November 2026"),
        ({"effect": 0.1, "campaign_id": "run-1"}, "local-2core trains gpt 10 % slower since campaign run-1"),
        ({"kind": "reliability", "effect": None, "title": "3 of 9 attempts failed"}, "local-2core gpt: 3 of 9 attempts failed since November 2026"),
        ({"effect": 0.1, "metric": "of-a-newer-version"}, "local-2core gpt: step_time +91 % since November 2026"),
    ],
)  # fmt: skip
def test_the_change_in_words(changes, words):
    assert what_happened(replace(FINDING, **changes)) == words


def test_what_no_campaign_showed_began_on_a_day():
    assert what_happened(replace(NOTICED, title="environment changed: driver 550 → 570")) == (
        "lab: environment changed: driver 550 → 570 since 2026-11-21"
    )


@pytest.mark.parametrize(
    ("usd", "end"), [(5670.0, ": about 5,700 USD a month"), (-123.0, ": saves about 120 USD a month"), (None, "2026"), (0.0, "2026")]
)
def test_money_is_rounded_and_an_unknown_one_is_left_out(usd, end):
    assert headline_in_words(replace(FINDING, effect=0.1), usd).endswith(end)
