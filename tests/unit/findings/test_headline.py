"""A finding's headline: cause, consequence, money."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.alerts.test_message import FINDING
from tests.unit.results.test_finding import NOTICED

from plumbline.findings.headline import headline, one_per_headline
from plumbline.results.finding import ChoiceMove
from plumbline.words.price_change import price_cause

INFERENCE = {"workload_kind": "inference", "workload": "chat"}
UNEXPLAINED = replace(FINDING, attributed_to=(), causes=())
PRICE = replace(
    NOTICED, kind="price", subject="winner/product/inference/chat", provider="borealis", since="2026-10-02", members=(),
    causes=(price_cause("borealis", 0.305, "2026-09-01"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"effect": 0.079}, "local-2core trains gpt 7.9 % slower since November 2026, cause unknown"),
        ({"effect": -0.079}, "local-2core trains gpt 7.9 % faster since November 2026, cause unknown"),
        ({"effect": -0.2, "metric": "tokens_per_second"}, "local-2core trains gpt 20 % slower since November 2026, cause unknown"),
        ({"effect": 0.2, "metric": "goodput", **INFERENCE}, "local-2core serves chat 20 % faster since November 2026, cause unknown"),
        ({"effect": 0.1, "metric": "restart_penalty"}, "local-2core: restart penalty of gpt 10 % higher since November 2026, cause unknown"),
        ({"effect": 0.1, "campaign_id": "run-1"}, "local-2core trains gpt 10 % slower since campaign run-1, cause unknown"),
        ({"effect": 0.1, "attributed_to": ("driver",)}, "local-2core trains gpt 10 % slower since November 2026"),
        ({"effect": 0.1, "attributed_to": ("driver",), "causes": ("driver 550 → 570",)},
         "driver 550 → 570 on local-2core: gpt trains 10 % slower since November 2026"),
        ({"effect": 0.2, "metric": "goodput", **INFERENCE, "attributed_to": ("driver",), "causes": ("driver 1 → 2", "b", "c", "d", "e")},
         "driver 1 → 2, b, c and 2 more on local-2core: local-2core serves chat 20 % faster since November 2026"),
        ({"kind": "reliability", "effect": None, "members": (), "title": "3 of 9 attempts failed"},
         "local-2core gpt: 3 of 9 attempts failed since November 2026"),
        ({"effect": 0.1, "metric": "of-a-newer-version", "members": ()}, "local-2core gpt: step_time +91 % since November 2026"),
    ],
)  # fmt: skip
def test_the_change_in_words(changes, words):
    assert headline(replace(UNEXPLAINED, **changes)) == words


def test_a_fact_that_no_campaign_showed_is_its_own_cause():
    assert headline(replace(NOTICED, consequence="a run starts")) == "driver 550 → 570 on lab since 21 November 2026: a run starts"


@pytest.mark.parametrize(
    ("usd", "end"),
    [(5670.0, ", about 5,700 USD a month more"), (-123.0, ", about 120 USD a month less"), (None, "unknown"), (0.0, "unknown")],
)
def test_money_is_rounded_and_an_unknown_one_is_left_out(usd, end):
    assert headline(replace(UNEXPLAINED, effect=0.1), usd).endswith(end)


def move(team: str, after: str | None, kind: str = "inference", before: str | None = "borealis") -> ChoiceMove:
    return ChoiceMove(team, kind, before, after)


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        ((move("product", "cirrus"), move("platform", "aurora")), "product moves to cirrus, platform to aurora"),
        ((move("product", "cirrus"), move("platform", "cirrus")), "product and platform move to cirrus"),
        ((move("ml", "cirrus"), move("ml", "aurora", "training")), "ml (inference) moves to cirrus, ml (training) to aurora"),
        ((move("ml", None),), "no provider is eligible for ml"),
        ((move("ml", "cirrus", before=None),), "ml chooses cirrus"),
        ((replace(move("ml", "cirrus"), clear=False), move("product", "cirrus")), "cirrus leads for ml, product moves to cirrus"),
        (tuple(move(f"t{i}", f"p{i}") for i in range(50)), "t0 moves to p0, t1 to p1 and 48 more"),
        (tuple(move(f"t{i}", "p0") for i in range(50)), "t0, t1, t2 and 47 more move to p0"),
    ],
)
def test_a_price_moves_first_choices_in_one_line_of_at_most_three_providers(moves, words):
    assert headline(replace(PRICE, moves=moves), 1234.0) == (
        f"borealis raised its price 30 % on 1 September 2026, about 1,200 USD a month more: {words}"
    )


def test_what_shares_a_headline_is_one_story():
    assert one_per_headline([("a", 1), ("b", 2), ("a", 3)]) == {"a": [1, 3], "b": [2]}
