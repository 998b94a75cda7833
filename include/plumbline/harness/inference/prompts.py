"""Prompts: drawn from the workload's seed, each used once, so that no cache can answer for the model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.arrivals import PhaseLoad, Schedule, random, turn_of
from plumbline.harness.inference.processes import Random
from plumbline.harness.inference.segments import Prompt, Source, TokenIds, source_of

__all__ = ["Prompt", "Prompts", "TokenIds", "probe_prompts", "prompts_of"]

_DRAWS = 100


@dataclass(frozen=True)
class Prompts:
    """`cold_start` goes out before any load; `by_phase[i][j]` is request j of the schedule's phase i; `prefixes` are the shared ones, with
    which a cache is primed."""

    cold_start: Prompt
    by_phase: tuple[tuple[Prompt, ...], ...]
    prefixes: tuple[Prompt, ...] = ()

    @cached_property
    def sha256(self) -> str:
        """Hash (hex) over the ids of all prompts (cold start, phases, prefixes), each preceded by its length, little-endian."""
        hashed = hashlib.sha256()
        for prompt in chain((self.cold_start,), *self.by_phase, self.prefixes):
            hashed.update(len(prompt.ids).to_bytes(4, "little"))
            hashed.update(prompt.ids.astype("<i4").tobytes())
        return hashed.hexdigest()


def prompts_of(workload: InferenceWorkload, schedule: Schedule) -> Prompts:
    """The prompts of a schedule, no two alike.

    With shared prefixes, each prompt begins with one of them, evenly and in random order; the cold start's does not. A conversation's turn
    begins with the prompt before it and a stand-in for its answer: drawn from the seed and as long as the answer was to be, because what a
    server answers must not change what it is asked.
    Raises ValueError if the vocabulary and lengths do not allow that many different prompts.
    """
    source = source_of(workload)
    prefixes = _prefixes(workload, source)
    unique = _Unique(workload, source)
    cold_start = unique.first(None, source.segments([int(schedule.phases[0].input_tokens[0])], rng := random(workload, 0, 5))[0], rng)
    phases = []
    for load in schedule.phases:
        number = next(i for i, spec in enumerate(workload.phases) if spec.name == load.name)
        stream = [number, 1] if load.probe is None else [number, 3, load.probe]
        phases.append(unique.phase(load, prefixes, random(workload, *stream)))
    return Prompts(cold_start, tuple(phases), prefixes)


def probe_prompts(workload: InferenceWorkload, load: PhaseLoad, phase: int, probe: int) -> tuple[Prompt, ...]:
    """The prompts of a search's probe (`probe_load` of the same numbers), no two of them alike, with the prefixes of `prompts_of`.

    Raises ValueError as `prompts_of`.
    """
    source = source_of(workload)
    return _Unique(workload, source).phase(load, _prefixes(workload, source), random(workload, phase, 3, probe))


def _prefixes(workload: InferenceWorkload, source: Source) -> tuple[Prompt, ...]:
    shared = workload.requests.shared_prefix
    if shared is None:
        return ()
    unique, rng = _Unique(workload, source), random(workload, 0, 4)
    return tuple(unique.first(None, segment, rng) for segment in source.segments([shared.tokens] * shared.groups, rng))


class _Unique:
    """Makes prompts that differ from all that it made before."""

    def __init__(self, workload: InferenceWorkload, source: Source) -> None:
        self.workload, self.source = workload, source
        self.seen: set[bytes] = set()

    def first(self, before: Prompt | None, own: Prompt, rng: Random) -> Prompt:
        """`before` followed by `own`, or by another draw of its length if that prompt was used already."""
        for _ in range(_DRAWS):
            prompt = own if before is None else before + own
            key = hashlib.blake2b(prompt.ids.data, digest_size=16).digest()
            if key not in self.seen:
                self.seen.add(key)
                return prompt
            own = self.source.segments([len(own.ids)], rng)[0]
        raise ValueError(
            f"requests.input_tokens: no unused prompt with {len(own.ids)} tokens of its own from a vocabulary of "
            f"{self.workload.model.vocabulary} after {len(self.seen)} prompts; expected longer prompts, a larger vocabulary or fewer requests"
        )

    def phase(self, load: PhaseLoad, prefixes: tuple[Prompt, ...], rng: Random) -> tuple[Prompt, ...]:
        """The prompts of a phase's requests, in their order."""
        turn, chains = turn_of(load, self.workload.requests), load.chains
        continues = np.append(turn[chains:] > 0, np.zeros(min(chains, load.n), bool))  # a next turn repeats the answer
        own = load.input_tokens - (len(prefixes[0].ids) if prefixes else 0)
        later = np.flatnonzero(turn > 0)
        own[later] = load.input_tokens[later] - load.input_tokens[later - chains] - load.output_tokens[later - chains]
        segments = self.source.segments(own.tolist(), rng)
        answers = self.source.segments(np.where(continues, load.output_tokens, 0).tolist(), rng) if len(later) else []
        group = rng.permutation(load.n) % max(1, len(prefixes))
        prompts: list[Prompt] = []
        for i, segment in enumerate(segments):
            if turn[i]:
                before: Prompt | None = prompts[i - chains] + answers[i - chains]
            else:
                before = prefixes[group[i]] if prefixes else None
            prompts.append(self.first(before, segment, rng))
        return tuple(prompts)
