"""Prompts of exactly the declared lengths: random token ids, or synthetic text that the shipped tokenizer encodes to these lengths."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.inference import TOKENIZER_VOCABULARY
from plumbline.harness.inference.load.schedule import Random, Schedule, request_rng, turn_of
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt, TokenIds

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DRAWS = 100


@dataclass(frozen=True)
class Prompts:
    """`cold_start` goes out before any load; `by_phase[i][j]` is request j of the schedule's phase i; `prefixes` are the shared ones, with
    which a cache is primed. `own`: where further prompts come from, if the workload brings its own."""

    cold_start: Prompt
    by_phase: tuple[tuple[Prompt, ...], ...]
    prefixes: tuple[Prompt, ...] = ()
    own: ProbeSource | None = None

    @cached_property
    def sha256(self) -> str:
        """Hash (hex) over the ids of all prompts (cold start, phases, prefixes), each preceded by its length, little-endian; of a prompt whose
        ids are unknown over its text, in JSON."""
        hashed = hashlib.sha256()
        for prompt in chain((self.cold_start,), *self.by_phase, self.prefixes):
            if not len(prompt.ids):
                hashed.update(json.dumps([prompt.text, prompt.messages], sort_keys=True).encode())
                continue
            hashed.update(len(prompt.ids).to_bytes(4, "little"))
            hashed.update(prompt.ids.astype("<i4").tobytes())
        return hashed.hexdigest()


class ProbeSource(Protocol):
    def probe(self, load: PhaseLoad, phase: int, probe: int) -> tuple[PhaseLoad, tuple[Prompt, ...]]:
        """The load of a search's probe with its prompts' lengths, and its prompts."""
        ...


def prompts_of(workload: InferenceWorkload, schedule: Schedule) -> Prompts:
    """The prompts of a schedule, no two alike.

    With shared prefixes, each prompt begins with one of them, evenly and in random order; the cold start's does not. A conversation's turn
    begins with the prompt before it and a stand-in for its answer: drawn from the seed and as long as the answer was to be, because what a
    server answers must not change what it is asked.
    Raises ValueError if the vocabulary and lengths do not allow that many different prompts.
    """
    source = prompt_source(workload)
    prefixes = _prefixes(workload, source)
    unique = _Unique(workload, source)
    cold_start = unique.first(None, source.segments([int(schedule.phases[0].input_tokens[0])], rng := request_rng(workload, 0, 5))[0], rng)
    phases = []
    for load in schedule.phases:
        number = next(i for i, spec in enumerate(workload.phases) if spec.name == load.name)
        stream = [number, 1] if load.probe is None else [number, 3, load.probe]
        phases.append(unique.phase(load, prefixes, request_rng(workload, *stream)))
    return Prompts(cold_start, tuple(phases), prefixes)


def probe_prompts(workload: InferenceWorkload, load: PhaseLoad, phase: int, probe: int) -> tuple[Prompt, ...]:
    """The prompts of a search's probe (`probe_load` of the same numbers), no two of them alike, with the prefixes of `prompts_of`.

    Raises ValueError as `prompts_of`.
    """
    source = prompt_source(workload)
    return _Unique(workload, source).phase(load, _prefixes(workload, source), request_rng(workload, phase, 3, probe))


def _prefixes(workload: InferenceWorkload, source: PromptSource) -> tuple[Prompt, ...]:
    shared = workload.requests.shared_prefix
    if shared is None:
        return ()
    unique, rng = _Unique(workload, source), request_rng(workload, 0, 4)
    return tuple(unique.first(None, segment, rng) for segment in source.segments([shared.tokens] * shared.groups, rng))


class _Unique:
    def __init__(self, workload: InferenceWorkload, source: PromptSource) -> None:
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
        turn = turn_of(load, self.workload.requests)
        own = load.input_tokens - (len(prefixes[0].ids) if prefixes else 0)
        later = np.flatnonzero(turn > 0)
        before_it = load.after[later]
        own[later] = load.input_tokens[later] - load.input_tokens[before_it] - load.output_tokens[before_it]
        continues = np.zeros(load.n, bool)
        continues[before_it] = True  # a next turn repeats the answer
        segments = self.source.segments(own.tolist(), rng)
        answers = self.source.segments(np.where(continues, load.output_tokens, 0).tolist(), rng) if len(later) else []
        group = rng.permutation(load.n) % max(1, len(prefixes))
        prompts: list[Prompt] = []
        for i, segment in enumerate(segments):
            if turn[i]:
                last = int(load.after[i])
                before: Prompt | None = prompts[last] + answers[last]
            else:
                before = prefixes[group[i]] if prefixes else None
            prompts.append(self.first(before, segment, rng))
        return tuple(prompts)


@dataclass(frozen=True)
class RandomIds:
    vocabulary: int

    def segments(self, counts: Sequence[int], rng: np.random.Generator) -> list[Prompt]:
        """A segment for each count, of exactly so many tokens."""
        ends = np.cumsum(counts)
        ids = rng.integers(0, self.vocabulary, int(ends[-1]) if len(ends) else 0, dtype=np.int32)
        return [Prompt(ids[end - count : end]) for count, end in zip(counts, ends.tolist(), strict=True)]


class CorpusText:
    """Text of the corpus. Every piece is a word with the space before it (and a mark after it), which the tokenizer splits from its
    neighbours before it merges anything: so a text's ids are those of its pieces, one after the other."""

    @cached_property
    def _ids(self) -> tuple[TokenIds, NDArray[np.int64], NDArray[np.int64]]:
        """All pieces' ids in a row, where each begins in it, and how many each has."""
        encoded = [encoding.ids for encoding in shipped_tokenizer().encode_batch(list(corpus_pieces()))]
        counts = np.array([len(ids) for ids in encoded], np.int64)
        return np.concatenate([np.array(ids, np.int32) for ids in encoded]), np.cumsum(counts) - counts, counts

    def segments(self, counts: Sequence[int], rng: np.random.Generator) -> list[Prompt]:
        """Running text as long as whole pieces fit, then words of one token each."""
        every, begins, sizes = self._ids
        texts = corpus_pieces()
        total = sum(counts)
        stream = corpus_stream(total, rng)  # a piece has at least one token
        stream = stream[: int(np.searchsorted(np.cumsum(sizes[stream]), total, side="right")) + 1]
        size = sizes[stream]
        ends = np.cumsum(size)
        ids = every[np.repeat(begins[stream] - (ends - size), size) + np.arange(int(ends[-1]) if len(ends) else 0)]
        written = [texts[piece] for piece in stream]
        ones = np.flatnonzero(sizes == 1)
        fillers = ones[rng.integers(0, len(ones), len(counts) * (int(sizes.max()) - 1))]

        prompts: list[Prompt] = []
        piece = token = filled = 0
        for count in counts:
            last = int(np.searchsorted(ends, token + count, side="right"))
            until = int(ends[last - 1]) if last else 0
            short = count - (until - token)
            rest = fillers[filled : filled + short]
            text = "".join(written[piece:last]) + "".join(texts[i] for i in rest)
            prompts.append(Prompt(np.concatenate([ids[token:until], every[begins[rest]]]), text))
            piece, token, filled = last, until, filled + short
        return prompts


PromptSource = RandomIds | CorpusText
_TEXT = CorpusText()  # one for all: a search asks for prompts again and again, and the pieces' ids are the same


def prompt_source(workload: InferenceWorkload) -> PromptSource:
    if workload.requests.text:
        return _TEXT
    if workload.model.vocabulary is None:
        raise ValueError("model.vocabulary is unknown; expected it declared, or read from the checkpoint's config.json")
    return RandomIds(workload.model.vocabulary)


CORPUS_WORDS = 6000
_CORPUS_SEED = 20261101
_ONSETS = ("b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "qu", "r", "s", "st", "t", "tr", "v", "w")  # fmt: skip
_NUCLEI = ("a", "e", "i", "o", "u", "ai", "ea", "ou", "ie", "é", "ü")
_CODAS = ("", "", "", "l", "m", "n", "nd", "r", "rt", "s", "st", "t", "x")
_ENDINGS = ("", "", "", "ed", "er", "ing", "ly", "ness", "s", "tion")
_COMMA, _STOP = 0.08, 0.07
MARKS = ("", ",", ".")

Indices = NDArray[np.int64]


@cache
def corpus_words() -> tuple[str, ...]:
    """The word list, the most frequent first: short words lead, as in languages. The same on every machine."""
    rng = np.random.Generator(np.random.PCG64(_CORPUS_SEED))

    def pick(parts: tuple[str, ...]) -> str:
        return parts[int(rng.integers(len(parts)))]

    words: dict[str, None] = {}
    while len(words) < CORPUS_WORDS:
        syllables = 1 + min(3, len(words) * 5 // CORPUS_WORDS)
        word = "".join(pick(_ONSETS) + pick(_NUCLEI) + pick(_CODAS) for _ in range(int(rng.integers(1, syllables + 1))))
        words[word + (pick(_ENDINGS) if syllables > 1 else "")] = None
    return tuple(words)


@cache
def corpus_pieces() -> tuple[str, ...]:
    """Pieces of generated text: every word with a space before it, small and capital, followed by nothing, a comma or a full stop.

    Piece (word · 2 + capital) · 3 + mark. The words' order is that of `corpus_words`.
    """
    return tuple(f" {form}{mark}" for word in corpus_words() for form in (word, word.capitalize()) for mark in MARKS)


def corpus_stream(n: int, rng: np.random.Generator) -> Indices:
    """Text of `n` pieces, int64 [n] into `corpus_pieces`: words by Zipf's law, sentences of random length that begin with a capital."""
    weights = 1.0 / np.arange(3, CORPUS_WORDS + 3)
    word = np.searchsorted(np.cumsum(weights / weights.sum())[:-1], rng.random(n), side="right")
    chance = rng.random(n)
    mark = np.where(chance < _STOP, 2, np.where(chance < _STOP + _COMMA, 1, 0))
    capital = np.concatenate([[True], mark[:-1] == 2])[:n]
    index: Indices = (word * 2 + capital) * len(MARKS) + mark
    return index


def corpus_text(n: int, seed: int) -> str:
    known = corpus_pieces()
    return "".join(known[i] for i in corpus_stream(n, np.random.Generator(np.random.PCG64(seed))))


TOKENIZER_FILE = Path(__file__).with_name("tokenizer.json")
_TRAINED_ON = 400_000  # pieces of text
_TOKENIZER_SEED = 1


@cache
def shipped_tokenizer() -> Tokenizer:
    """The tokenizer that a served model loads too: text becomes the same ids in client and server."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(TOKENIZER_FILE))


def train_tokenizer() -> Tokenizer:
    """A tokenizer trained as the shipped one was; the same merges on every machine."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    # Words are split before any merge, each with the space before it: what a word becomes depends on no neighbour.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENIZER_VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[], show_progress=False
    )
    tokenizer.train_from_iterator([corpus_text(_TRAINED_ON, _TOKENIZER_SEED)], trainer)
    return tokenizer


if __name__ == "__main__":
    train_tokenizer().save(str(TOKENIZER_FILE), pretty=False)
