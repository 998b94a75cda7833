from __future__ import annotations

import torch

from plumbline.harness.inference.models.prefixes import BLOCK, Prefixes

LAYERS, HEADS, HEAD = 2, 2, 4


def cache_of(values: torch.Tensor) -> torch.Tensor:
    """A stand-in for computed keys and values: each token's are its own number, [layers, tokens, 2, heads, head]."""
    return values.float()[None, :, None, None, None].expand(LAYERS, len(values), 2, HEADS, HEAD)


def prefixes(blocks: int) -> Prefixes:
    return Prefixes(torch.zeros(LAYERS, 3, 100, 2, HEADS, HEAD), blocks * BLOCK)


def prompt(begin: int, n: int) -> torch.Tensor:
    return torch.arange(begin, begin + n)


def test_the_longest_common_beginning_in_whole_blocks_is_found() -> None:
    kept = prefixes(8)
    first = prompt(0, 3 * BLOCK + 5)
    assert kept.known(first) is None
    kept.keep(first, cache_of(first))
    second = torch.cat([first[: 2 * BLOCK + 3], prompt(900, 20)])
    known = kept.known(second)
    assert known is not None
    assert torch.equal(known, cache_of(first)[:, : 2 * BLOCK])
    assert (kept.hits, kept.misses) == (2 * BLOCK, len(first) + len(second) - 2 * BLOCK)


def test_the_same_tokens_behind_another_beginning_are_not_the_same() -> None:
    kept = prefixes(8)
    kept.keep(prompt(0, 2 * BLOCK), cache_of(prompt(0, 2 * BLOCK)))
    moved = torch.cat([prompt(500, BLOCK), prompt(BLOCK, BLOCK), prompt(700, 1)])
    assert kept.known(moved) is None
    assert kept.hits == 0


def test_the_last_token_is_always_computed() -> None:
    kept, text = prefixes(8), prompt(0, 2 * BLOCK)
    kept.keep(text, cache_of(text))
    known = kept.known(text)
    assert known is not None and known.shape[1] == BLOCK


def test_the_least_recently_used_is_given_up_first_and_ends_before_beginnings() -> None:
    kept = prefixes(3)
    shared, other = prompt(0, 2 * BLOCK), prompt(300, BLOCK)
    kept.keep(shared, cache_of(shared))
    kept.keep(other, cache_of(other))
    used = torch.cat([shared, prompt(900, 1)])
    assert kept.known(used) is not None
    new = prompt(600, BLOCK)
    kept.keep(new, cache_of(new))
    assert kept.known(torch.cat([other, other])) is None, "the one that was not used"
    assert kept.known(used) is not None
    newer = prompt(2000, 2 * BLOCK)
    kept.keep(newer, cache_of(newer))
    left = kept.known(used)
    assert left is not None and torch.equal(left, cache_of(shared)[:, :BLOCK]), "its end went, its beginning stayed"


def test_a_prompt_longer_than_the_room_keeps_its_beginning() -> None:
    kept, text = prefixes(2), prompt(0, 5 * BLOCK)
    kept.keep(text, cache_of(text))
    known = kept.known(text)
    assert known is not None and torch.equal(known, cache_of(text)[:, : 2 * BLOCK])
