"""Prompts: token ids drawn from the workload's seed, each used once, so that no cache can answer for the model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.arrivals import Schedule

TokenIds = NDArray[np.int32]
_DRAWS = 100


@dataclass(frozen=True)
class Prompts:
    """`cold_start` int32 [tokens] goes out before any load; `by_phase[i][j]` int32 [tokens] is request j of phase i."""

    cold_start: TokenIds
    by_phase: tuple[tuple[TokenIds, ...], ...]

    @cached_property
    def sha256(self) -> str:
        """Hash (hex) over all prompts, each preceded by its length, little-endian."""
        hashed = hashlib.sha256()
        for prompt in (self.cold_start, *(p for phase in self.by_phase for p in phase)):
            hashed.update(len(prompt).to_bytes(4, "little"))
            hashed.update(prompt.astype("<i4").tobytes())
        return hashed.hexdigest()


def prompts_of(workload: InferenceWorkload, schedule: Schedule) -> Prompts:
    """The prompts of a schedule, no two alike; ValueError if the vocabulary and lengths do not allow that."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([workload.requests.seed, len(schedule.phases), 1])))
    seen: set[bytes] = set()

    def draw(length: int) -> TokenIds:
        for _ in range(_DRAWS):
            prompt = rng.integers(0, workload.model.vocabulary, length, dtype=np.int32)
            if prompt.tobytes() not in seen:
                seen.add(prompt.tobytes())
                return prompt
        raise ValueError(
            f"requests.input_tokens: no unused prompt of {length} tokens from a vocabulary of {workload.model.vocabulary} after "
            f"{len(seen)} prompts; expected longer prompts, a larger vocabulary or fewer requests"
        )

    cold_start = draw(int(schedule.phases[0].input_tokens[0]))
    return Prompts(cold_start, tuple(tuple(draw(int(n)) for n in phase.input_tokens) for phase in schedule.phases))
