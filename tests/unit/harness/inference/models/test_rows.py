"""Sequences of a transformers model that generate together: the tokens of each alone, by one forward pass a step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests import checkpoints

from plumbline.harness.inference.models.rows import Rows, choice, joinable

PROMPTS = [[5, 9, 30, 31], [8], list(range(40, 90)), [7, 7, 7, 7]]
NONE = torch.zeros(512, dtype=torch.bool)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoModelForCausalLM

    folder = checkpoints.llama(tmp_path_factory.mktemp("rows") / "checkpoint", dtype="float32", steps=20)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def prefilled(model: Any, prompt: list[int], banned: torch.Tensor = NONE) -> tuple[Rows, list[int]]:
    found = model(input_ids=torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
    last = choice(found.logits[:, -1], banned[None])
    return Rows(found.past_key_values, len(prompt), last, banned), [int(last)]


def alone(model: Any, prompt: list[int], tokens: int) -> list[int]:
    """Transformers' own generate is the truth."""
    found: list[int] = model.generate(torch.tensor([prompt]), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)[0].tolist()
    return found[len(prompt) :]


def test_rows_that_come_and_go_answer_as_each_alone_does(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    banned = NONE.clone()
    banned[1] = True
    expected = [alone(model, prompt, 12) for prompt in PROMPTS]
    rows, first = prefilled(model, PROMPTS[0], banned)
    answers, order = {0: first}, [0]
    passes, plain = list[int](), model.forward

    def counted(*arguments: Any, **named: Any) -> Any:
        passes.append(len(named["input_ids"]))
        return plain(*arguments, **named)

    def steps(n: int) -> None:
        for _ in range(n):
            for number, token in zip(order, rows.step(model), strict=True):
                answers[number].append(token)

    monkeypatch.setattr(model, "forward", counted)
    steps(2)
    for number in (1, 2, 3):
        other, answers[number] = prefilled(model, PROMPTS[number], banned)
        assert rows.fits(other)
        rows.join(other)
        order.append(number)
    passes.clear()
    steps(4)
    assert passes == [4] * 4, "one pass a step, whatever the number of sequences"
    rows.keep([3, 0, 1])
    order = [order[3], order[0], order[1]]
    steps(4)
    for number, answer in answers.items():
        assert answer == expected[number][: len(answer)]
    assert [len(answers[number]) for number in range(4)] == [11, 9, 5, 9]


def test_what_pads_more_than_it_holds_stays_apart(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = prefilled(model, PROMPTS[1])[0], prefilled(model, PROMPTS[2])[0]
    assert short.fits(long)
    monkeypatch.setattr("plumbline.harness.inference.models.rows.SMALL", 0)
    assert short.fits(long), "2 × 50 tokens of room for 51"
    short.join(prefilled(model, PROMPTS[1])[0])
    assert not short.fits(long), "3 × 50 of room for 52"


def test_a_cache_that_is_no_plain_keys_and_values_is_not_joined(model: Any) -> None:
    class Window(type(prefilled(model, PROMPTS[0])[0].cache.layers[0])):  # type: ignore[misc]
        pass

    rows, other = prefilled(model, PROMPTS[0])[0], prefilled(model, PROMPTS[1])[0]
    other.cache.layers[0].__class__ = Window
    assert joinable(rows.cache) and not joinable(other.cache)
    assert not rows.fits(other) and not other.fits(rows)
