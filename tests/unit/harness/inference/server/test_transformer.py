from __future__ import annotations

import pytest
import torch
from tests.unit.harness.inference.load.test_arrivals import workload

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.models.transformer import Transformer, close_up, seeded

SHAPE = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 97, "context": 24}


def model() -> Transformer:
    # Larger weights than the model's own, so that different contexts lead to different tokens.
    made = seeded(3, **SHAPE)
    with torch.no_grad():
        for weights in made.parameters():
            if weights.dim() > 1:
                weights.mul_(10)
    made.reserve(4)
    return made


def prompt(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, SHAPE["vocabulary"], (n,), generator=torch.Generator().manual_seed(seed))


def first(model: Transformer, text: torch.Tensor, budget: int = 1000) -> int:
    """Admit a prompt and return its first token, as the last row that generates."""
    model.admit(text)
    while model.prefills:
        tokens = model.step(budget)
    return int(tokens[-1])


def generate_by_prefill(text: torch.Tensor, tokens: int) -> list[int]:
    """Without a cache across steps: each token from a fresh prefill of everything before it."""
    out: list[int] = []
    for _ in range(tokens):
        out.append(first(model(), torch.cat([text, torch.tensor(out, dtype=torch.long)])))
    return out


def generate(model: Transformer, texts: list[torch.Tensor], tokens: int, budget: int, admit_every: int = 1) -> list[list[int]]:
    """All texts through one model, a new one admitted every so many steps, each released when it has its tokens."""
    out: list[list[int]] = [[] for _ in texts]
    rows: list[object] = []
    for step in range(1000):
        i, due = divmod(step, admit_every)
        if i < len(texts) and due == 0:
            model.admit(texts[i])
            rows.append(i)
        for i, token in zip(rows, model.step(budget).tolist(), strict=False):
            assert isinstance(i, int)
            out[i].append(token)
        for row in reversed(range(model.generating)):
            done = rows[row]
            assert isinstance(done, int)
            if len(out[done]) == tokens:
                close_up(rows, row, model.generating)
                model.release(row)
        if not rows and i >= len(texts) - 1:
            return out
    raise AssertionError("no end")


def test_steps_from_the_cache_equal_prefills_of_everything() -> None:
    cached = model()
    out = [first(cached, prompt(7))] + [int(cached.step(9)) for _ in range(9)]
    assert out == generate_by_prefill(prompt(7), 10)
    assert len(set(out)) > 3, "a model that repeats one token proves nothing"


@pytest.mark.parametrize("budget", [1, 4, 100])
def test_a_prompt_in_parts_gives_the_tokens_of_the_whole(budget: int) -> None:
    parts = model()
    assert [first(parts, prompt(11), budget), int(parts.step(budget))] == generate_by_prefill(prompt(11), 2)


@pytest.mark.parametrize(("budget", "admit_every"), [(100, 2), (3, 1), (5, 2)])
def test_batched_sequences_do_not_touch_each_other(budget: int, admit_every: int) -> None:
    """Sequences of different lengths come and go, their prompts in parts; each ends with the tokens that it has alone."""
    texts = [prompt(n, seed=n) for n in (3, 9, 5, 6)]
    together = model()
    assert generate(together, texts, 6, budget, admit_every) == [generate_by_prefill(text, 6) for text in texts]
    assert together.active == 0


def test_prompts_take_turns_with_generation() -> None:
    """While a long prompt is worked on, who generates gets a token at every step."""
    busy = model()
    out = [first(busy, prompt(4))]
    busy.admit(prompt(16, seed=1))
    counts = [len(busy.step(4)) for _ in range(4)]
    assert counts == [1, 1, 1, 2], "four parts of the prompt; its own first token comes with the last"
    assert busy.lengths == [8, 16]
    assert len(out) == 1


def test_prompts_are_worked_on_in_order() -> None:
    busy = model()
    for i, n in enumerate((6, 3, 5)):
        busy.admit(prompt(n, seed=i))
    assert [len(busy.step(7)) for _ in range(2)] == [1, 3]
    assert busy.pending == 0


def test_releasing_a_row_at_its_prompt_leaves_the_others() -> None:
    """A request that is given up while its prompt is worked on, with one before and one behind it."""
    shared = model()
    rows: list[object] = ["a", "b", "c"]
    out = [first(shared, prompt(5, seed=5))]
    shared.admit(prompt(8, seed=8))
    shared.admit(prompt(6, seed=6))
    out.append(int(shared.step(3)))
    close_up(rows, 1, shared.generating)
    shared.release(1)
    assert rows == ["a", "c"]
    after = [shared.step(100) for _ in range(2)]
    assert out + [int(tokens[0]) for tokens in after] == generate_by_prefill(prompt(5, seed=5), 4)
    assert [int(tokens[1]) for tokens in after] == generate_by_prefill(prompt(6, seed=6), 2)


def test_a_released_row_leaves_nothing_behind() -> None:
    reused = model()
    first(reused, prompt(12, seed=1))
    reused.step(9)
    reused.release(0)
    out = [first(reused, prompt(4, seed=2)), *(int(reused.step(9)) for _ in range(5))]
    assert out == generate_by_prefill(prompt(4, seed=2), 6)


def test_known_beginnings_are_not_computed_again() -> None:
    """Keys and values of another prompt with the same beginning give the same tokens; wrong ones do not."""
    donor, text = model(), prompt(10, seed=3)
    first(donor, text)
    known = donor.cache[:, 0, :8]
    taker = model()
    taker.admit(text, known)
    assert taker.pending == 2
    assert int(taker.step(100)) == generate_by_prefill(text, 1)[0]
    wrong = model()
    wrong.admit(text, -known)
    wrong.step(100)
    assert not torch.equal(wrong.cache[:, 0, 8:10], donor.cache[:, 0, 8:10])


def test_limits() -> None:
    small = model()
    with pytest.raises(ValueError, match="25 tokens"):
        small.admit(prompt(25))
    with pytest.raises(ValueError, match="0 tokens"):
        small.admit(prompt(0))
    with pytest.raises(ValueError, match="3 tokens, 3 "):
        small.admit(prompt(3), torch.zeros(2, 3, 2, 4, 8))
    assert small.step(9).tolist() == [], "nothing to do"
    for i in range(4):
        assert not small.full
        small.admit(prompt(24, seed=i))
    assert small.full
    with pytest.raises(ValueError, match="4 active"):
        small.admit(prompt(2))
    small.step(1000)
    with pytest.raises(ValueError, match="24 tokens"):
        small.step(9)


def test_weights_follow_from_the_seed() -> None:
    one, same, other = seeded(3, **SHAPE), seeded(3, **SHAPE), seeded(4, **SHAPE)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.head.weight, other.head.weight)


def test_the_model_has_the_parameters_that_its_declaration_counts() -> None:
    declared: InferenceWorkload = workload()
    shape = declared.model
    built = seeded(
        shape.seed,
        layers=shape.layers,
        width=shape.width,
        heads=shape.heads,
        vocabulary=shape.vocabulary,
        context=shape.context,
    )
    assert sum(p.numel() for p in built.parameters()) == shape.parameters
