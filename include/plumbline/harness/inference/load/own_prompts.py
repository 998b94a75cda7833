"""A workload's own prompts: read or fetched, checked against the model's context, and dealt out to the requests of a load.

The text of private ones stays out of documents, evidence and errors."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from plumbline.declarations import InferenceWorkload, installation_paths
from plumbline.declarations.workloads.prompts import (
    PRIVATE_FOLDER,
    FilePrompts,
    HubPrompts,
    PromptRow,
    PromptSet,
    UrlPrompts,
    file_name,
    read_file,
    read_rows,
    select,
    selection_hash,
    unpack,
)
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.checkpoint import sources
from plumbline.harness.inference.load.prompts import Prompts
from plumbline.harness.inference.load.schedule import Schedule, request_rng, turn_of
from plumbline.harness.inference.load.served_tokenizer import ServedTokenizer, TemplateFailed, Unread
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import NO_IDS, Prompt

MAX_FETCHED_BYTES = 2 * 2**30


class PromptFetchFailed(Exception):
    """Prompts that could not be fetched; the message has no credentials."""


def selected_rows(prompts: PromptSet, hub: str | None = None, token: str | None = None) -> tuple[PromptRow, ...]:
    """The sampled rows. `hub`: the address of the hub's mirror.

    Raises UnusableFile, and FetchFailed for an address that does not answer."""
    name = file_name(prompts)
    if isinstance(prompts, FilePrompts):
        if prompts.content is not None:
            return unpack(prompts.content, prompts.selection)
        rows, digest = read_file(private_folder(), prompts)
        chosen = select(rows, name, prompts.sample, prompts.seed)
        if (digest, selection_hash(chosen)) != (prompts.sha256, prompts.selection):
            raise UnusableFile(f"{name} has SHA-256 {digest}; expected {prompts.sha256}, which the trial was planned with")
        return chosen
    data = _fetched(prompts, hub, token)
    digest = hashlib.sha256(data).hexdigest()
    if prompts.sha256 not in (None, digest):
        raise UnusableFile(f"{name} has SHA-256 {digest}; expected requests.prompts.sha256 {prompts.sha256}")
    return select(read_rows(data, name, prompts.format), name, prompts.sample, prompts.seed)


def private_folder() -> Path:
    """Where private prompt files lie."""
    configured = os.environ.get(PRIVATE_FOLDER)
    return Path(configured) if configured else installation_paths().config / "prompts"


def _fetched(prompts: UrlPrompts | HubPrompts, hub: str | None, token: str | None) -> bytes:
    """The file, from the source by which checkpoints and data are fetched."""
    try:
        if isinstance(prompts, HubPrompts):
            source: sources.Source = sources.HubSource(prompts.id, prompts.revision, hub or os.environ.get("HF_ENDPOINT"), token, "dataset")
            data = source.read(prompts.path, 0, MAX_FETCHED_BYTES + 1)
        else:
            source = sources.UrlData(prompts.url)
            data = source.read(next(iter(source.sizes())), 0, MAX_FETCHED_BYTES + 1)
    except (sources.FetchFailed, sources.AccessRefused) as error:
        raise PromptFetchFailed(f"{file_name(prompts)} cannot be fetched: {error}") from None
    if len(data) > MAX_FETCHED_BYTES:
        raise UnusableFile(f"{file_name(prompts)} has over {MAX_FETCHED_BYTES:,} bytes; expected a smaller file")
    return data


@dataclass
class OwnPrompts:
    """The sampled rows of a workload, with the served model's tokenizer (None: the server counts tokens)."""

    workload: InferenceWorkload
    rows: Sequence[PromptRow]
    tokenizer: ServedTokenizer | None
    _made: dict[tuple[int, int], Prompt] = field(default_factory=dict)

    @property
    def declared(self) -> PromptSet:
        declared = self.workload.requests.prompts
        assert declared is not None
        return declared

    def check(self) -> None:
        """Raises UnusableFile for the first prompt that the chat template cannot render, or that is too long for the model's context."""
        context = self.tokenizer.context if self.tokenizer else None
        written = self.workload.requests.output_tokens.longest
        for row in range(len(self.rows)):
            for turn in range(self._turns(row)):
                tokens = len(self.prompt(row, turn).ids)
                if context is not None and tokens + written > context:
                    raise UnusableFile(
                        f"{self._place_of(row, turn)}: {tokens} tokens, and up to {written} out, over the model's context of {context}; "
                        "expected at most the context"
                    )

    def schedule(self, schedule: Schedule) -> tuple[Schedule, Prompts]:
        """The schedule with the prompts' lengths, and without turns that a conversation does not have; and its prompts."""
        loads, prompts, at = [], [], 1
        for load in schedule.phases:
            fitted, chosen, at = self._fit(load, at)
            loads.append(fitted)
            prompts.append(chosen)
        # The first row of the sample goes out before any load.
        return replace(schedule, phases=tuple(loads)), Prompts(self.prompt(0, 0), tuple(prompts), own=self)

    def probe(self, load: PhaseLoad, phase: int, probe: int) -> tuple[PhaseLoad, tuple[Prompt, ...]]:
        """A search's load as `schedule` makes it, and its prompts; they begin at a place of the sample that the seed draws."""
        fitted, chosen, _ = self._fit(load, int(request_rng(self.workload, phase, 3, probe).integers(len(self.rows))))
        return fitted, chosen

    def lengths(self) -> list[int]:
        """Tokens of each turn of each row; 0 without a tokenizer."""
        return [len(self.prompt(row, turn).ids) for row in range(len(self.rows)) for turn in range(self._turns(row))]

    def prompt(self, row: int, turn: int) -> Prompt:
        """Turn `turn` of row `row`, both from 0; without `requests.turns` a conversation is one request, up to its last message of a user."""
        if not self._made:
            self._make()
        return self._made[row, turn]

    def _make(self) -> None:
        """All prompts at once: a checkpoint's tokenizer takes seconds to load."""
        places = [(row, turn) for row in range(len(self.rows)) for turn in range(self._turns(row))]
        unread = [self._unread(row, turn) for row, turn in places]
        messages = [None if isinstance(prompt, str) else prompt for prompt in unread]
        if self.tokenizer is None:
            prompts = [Prompt(NO_IDS, prompt) if isinstance(prompt, str) else Prompt(NO_IDS, None, prompt) for prompt in unread]
        else:
            prompts = []
            for place, message, read in zip(places, messages, self.tokenizer.read(unread), strict=True):
                if isinstance(read, TemplateFailed):
                    why = "" if self.declared.private else f" ({read.reason})"
                    raise UnusableFile(f"{self._place_of(*place)}: the chat template fails{why}; expected a conversation that it renders")
                prompts.append(Prompt(read.ids, read.text, message))
        self._made = dict(zip(places, prompts, strict=True))

    def _unread(self, row: int, turn: int) -> Unread:
        own_row = self.rows[row]
        return own_row.text if own_row.text is not None else own_row.messages[: own_row.turns[turn if self.workload.requests.turns else -1]]

    def _turns(self, row: int) -> int:
        declared = self.workload.requests.turns
        return 1 if declared is None else min(declared.count, len(self.rows[row].turns))

    def _place_of(self, row: int, turn: int) -> str:
        place = f"{file_name(self.declared)}:{self.rows[row].line}"
        return f"{place}, turn {turn + 1}" if self.workload.requests.turns else place

    def _fit(self, load: PhaseLoad, at: int) -> tuple[PhaseLoad, tuple[Prompt, ...], int]:
        """The load with prompts from row `at` of the sample on, in a circle; its prompts; the row after the last one."""
        turn, chains, n = turn_of(load, self.workload.requests), max(1, load.chains), len(self.rows)
        declared = self.workload.requests.turns
        number = np.arange(load.n)
        # Which conversation each request belongs to, in the order in which they begin; request i follows request i - chains.
        conversation = number % chains + chains * (number // chains // (declared.count if declared else 1))
        row = (at + conversation) % n
        available = np.array([self._turns(i) for i in range(n)])
        fitting = turn < available[row]
        prompts = tuple(self.prompt(int(row[i]), int(turn[i])) for i in np.flatnonzero(fitting))
        fitted = replace(
            load,
            arrivals_s=load.arrivals_s[fitting],
            input_tokens=np.array([len(prompt.ids) for prompt in prompts], np.int32),
            output_tokens=load.output_tokens[fitting],
            after=_relinked(load.after, fitting),
            turn=None if fitting.all() else turn[fitting],
        )
        return fitted, prompts, (at + int(conversation.max(initial=-1)) + 1) % n


def _relinked(after: np.ndarray, fitting: np.ndarray) -> np.ndarray:
    """`after` of the kept requests, int32 [kept]: each follows the nearest kept one before it in its chain."""
    number = (np.cumsum(fitting) - 1).astype(np.int32)
    nearest = np.full(len(after), -1, np.int32)
    for i, before in enumerate(after.tolist()):  # a predecessor has a smaller number
        if before >= 0:
            nearest[i] = before if fitting[before] else nearest[before]
    links = nearest[fitting]
    return np.where(links >= 0, number[links], -1).astype(np.int32)


WITHHELD = "the rest is withheld, because the prompts are private"
_WINDOW = 12
# What the client itself writes, or a status that has a fixed set of words.
_SAFE = re.compile(
    r"HTTP \d{3}|[A-Z_]{4,24}(?=: )"
    r"|\d+ (?:tokens|events and no usage that counts their tokens); expected \d+(?: tokens)?|\d+ of \d+ tokens within [\d.e+-]+s|not sent within [\d.e+-]+s: too many requests in flight"
    r"|the connection was closed (in the middle of the answer|before an answer came)"
    r"|the stream ended without (\[DONE\], after \d+ events with text|a final response)"
    r"|error \d{3} in the stream|the answer is empty: no event with text|sent again after a wait: HTTP \d{3}"
    r"|answered by a (?:tool call|refusal), not text|did not stream \([\w/.+-]*\)|\d+ events skipped that are no JSON, as comments are"
    r"|the server ended before it had answered|the server had ended before it was due|the load was stopped by a signal"
)


def safe_detail(detail: str) -> str:
    """The beginning of a request's error that cannot hold text of a prompt or of an answer."""
    known = _SAFE.match(detail)
    if known is None:
        return WITHHELD
    return detail if known.end() == len(detail) else f"{known[0]}: {WITHHELD}"


def without_text(message: str, texts: Iterable[str]) -> str:
    """The lines of `message` that repeat no part of any of the texts; a server's own log may quote them."""
    joined = "\0".join(texts)
    # Logs show a line break as two characters, and quotes with a backslash.
    known = (joined, repr(joined))

    def quotes(line: str) -> bool:
        windows = (line[i : i + _WINDOW] for i in range(max(1, len(line) - _WINDOW + 1)))
        return any(len(window) == _WINDOW and any(window in text for text in known) for window in windows)

    lines = message.split("\n")
    harmless = [line for line in lines if not quotes(line)]
    return message if len(harmless) == len(lines) else "\n".join([*harmless, WITHHELD]).strip()
