from __future__ import annotations

import pytest
import torch
from tests.unit.harness.inference.test_arrivals import workload

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.models.gpt.transformer import Transformer, seeded

SHAPE = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 97, "context": 24, "sequences": 4}


def model() -> Transformer:
    # Larger weights than the model's own, so that different contexts lead to different tokens.
    made = seeded(3, **SHAPE)
    with torch.no_grad():
        for weights in made.parameters():
            if weights.dim() > 1:
                weights.mul_(10)
    return made


def prompt(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, SHAPE["vocabulary"], (n,), generator=torch.Generator().manual_seed(seed))


def generate_by_prefill(text: torch.Tensor, tokens: int) -> list[int]:
    """Without a cache across steps: each token from a fresh prefill of everything before it."""
    out: list[int] = []
    for _ in range(tokens):
        fresh = model()
        out.append(int(fresh.admit(torch.cat([text, torch.tensor(out, dtype=torch.long)]))))
    return out


def test_steps_from_the_cache_equal_prefills_of_everything() -> None:
    cached = model()
    out = [int(cached.admit(prompt(7)))]
    out += [int(cached.step()) for _ in range(9)]
    assert out == generate_by_prefill(prompt(7), 10)
    assert len(set(out)) > 3, "a model that repeats one token proves nothing"


def test_batched_sequences_do_not_touch_each_other() -> None:
    """Sequences of different lengths come and go; each ends with the tokens that it has alone."""
    texts = [prompt(n, seed=n) for n in (3, 9, 5, 6)]
    alone = [generate_by_prefill(text, 6) for text in texts]
    together = model()
    out: dict[int, list[int]] = {}
    rows: list[int] = []
    for step in range(20):
        if step % 2 == 0 and step // 2 < len(texts):
            i = step // 2
            out[i] = [int(together.admit(texts[i]))]
            rows.append(i)
        if not rows:
            break
        for i, token in zip(rows, together.step().tolist(), strict=True):
            out[i].append(token)
        for row in reversed(range(len(rows))):
            if len(out[rows[row]]) == 6:
                together.release(row)
                last = rows.pop()
                if row < len(rows):
                    rows[row] = last
    assert [out[i] for i in range(4)] == alone
    assert together.active == 0


def test_a_released_row_leaves_nothing_behind() -> None:
    reused = model()
    reused.admit(prompt(12, seed=1))
    reused.step()
    reused.release(0)
    out = [int(reused.admit(prompt(4, seed=2))), *(int(reused.step()) for _ in range(5))]
    assert out == generate_by_prefill(prompt(4, seed=2), 6)


def test_limits() -> None:
    small = model()
    with pytest.raises(ValueError, match="a prompt of 25 tokens"):
        small.admit(prompt(25))
    with pytest.raises(ValueError, match="a prompt of 0 tokens"):
        small.admit(prompt(0))
    for i in range(4):
        assert not small.full
        small.admit(prompt(24, seed=i))
    assert small.full
    with pytest.raises(ValueError, match="into 4 active sequences"):
        small.admit(prompt(2))
    with pytest.raises(ValueError, match="reached the context of 24 tokens"):
        small.step()


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
        sequences=2,
    )
    assert sum(p.numel() for p in built.parameters()) == shape.parameters
