"""Triton's side of the causal LM: requests in, one decoupled response a token out, sequences batched at every step.

In    PROMPT_IDS int32 [tokens], or PROMPT uint8 [bytes] (UTF-8; the ids are taken if both come); MAX_TOKENS int32 [1]
Out   TOKEN int32 [1] and INDEX int32 [1] with every response, TEXT uint8 [bytes] too if the model speaks text; with the last one SERVER_TIMES
      fp64 [5]: seconds of tokenization, queue, prefill, decode, post-processing; and for text INPUT_TOKENS int32 [1]

Text is uint8: under numpy 2 the backend cannot carry Triton's own strings, neither in nor out.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton_python_backend_utils as pb_utils

# The stub imports this file as a member of a package named after the version folder and puts no such folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
from journal import Journal  # type: ignore[import-not-found]
from precision import in_precision, weight_bytes  # type: ignore[import-not-found]
from prefixes import Prefixes  # type: ignore[import-not-found]
from serving import (  # type: ignore[import-not-found]
    CLOSE_AFTER_S,
    FINAL,
    Counters,
    Text,
    introduce,
    leave_with_server,
    output,
    parameters_of,
    prompt_of,
    refusal,
    tensor_of,
    weights_of,
)
from transformer import Transformer, close_up, seeded  # type: ignore[import-not-found]

PREFILL_TOKENS = {"cpu": 256, "cuda": 2048}
"""Prompt tokens of one step at most: long prompts do not hold up the sequences that stream."""


@dataclass
class Sequence:
    """One request while it is served. Moments are monotonic seconds; `post_processing` is the time spent on text so far."""

    request_id: str
    sender: Any
    prompt: torch.Tensor
    wanted: int
    answer: Any
    tokenization: float
    arrived: float
    started: float = 0.0
    prefilled: float = 0.0
    post_processing: float = 0.0
    sent: int = 0


class TritonPythonModel:
    """One worker thread owns the transformer: it admits what has arrived, then does a step for every sequence, and again."""

    def initialize(self, args: dict[str, str]) -> None:
        """Build the model as config.pbtxt's parameters say; raises what torch raises if the device is not there."""
        began = time.monotonic()
        parameters = parameters_of(args)
        torch.set_num_threads(int(parameters["threads"]))
        self.device = parameters["device"]
        shape = {key: int(parameters[key]) for key in ("layers", "width", "heads", "vocabulary", "context")}
        model: Transformer = seeded(int(parameters["seed"]), self.device, **shape)
        count = sum(p.numel() for p in model.parameters())
        self.model: Transformer = in_precision(model, parameters["precision"])
        sequences = int(parameters["sequences"])
        self.model.reserve(sequences)
        self.text = Text(Path(__file__).parent / "tokenizer.json") if parameters["text"] == "true" else None
        # As much again as the rows hold: what is kept for later never costs more than what is being worked on.
        room = sequences * shape["context"]
        self.prefixes = Prefixes(self.model.cache, room) if parameters["prefix_cache"] != "off" else None
        self.counters = Counters(args["model_name"])
        if self.prefixes:
            self._count(self.prefixes)
        self.indices = torch.arange(shape["context"], dtype=torch.int32)[:, None].unbind()
        self.journal = Journal(Path(__file__).parent)
        self.arrivals: queue.SimpleQueue[Sequence | None] = queue.SimpleQueue()
        self.waiting: deque[Sequence] = deque()
        self.rows: list[Sequence] = []
        self.given_up: deque[tuple[float, Sequence]] = deque()
        self.worker = threading.Thread(target=self._serve, name="generate", daemon=True)
        self.worker.start()
        leave_with_server()
        introduce(
            **weights_of(self.model),
            precision=parameters["precision"],
            parameters=count,
            weight_bytes=weight_bytes(self.model),
            kv_cache_bytes=self.model.cache.numel() * self.model.cache.element_size(),
            build_s=time.monotonic() - began,
        )

    def execute(self, requests: list[Any]) -> None:
        """Hand requests to the worker and return at once: Triton keeps delivering while earlier ones stream."""
        for request in requests:
            began = time.monotonic()
            self.journal.started(request.request_id())
            sender, max_tokens = request.get_response_sender(), tensor_of(request, "MAX_TOKENS")
            try:
                prompt = prompt_of(request, self.text)
            except ValueError as error:
                sender.send(refusal(str(error)), flags=FINAL)
                continue
            n, total = len(prompt), len(prompt) + int(max_tokens[0])
            if n < 1 or total <= n or total > self.model.context:
                problem = f"{n} tokens in, {total - n} out; expected at least 1 each and at most {self.model.context} in all"
                sender.send(refusal(problem), flags=FINAL)
                continue
            now = time.monotonic()
            answer = self.text.answer() if self.text else None
            self.arrivals.put(Sequence(request.request_id(), sender, prompt, total - n, answer, now - began if self.text else 0.0, now))

    def finalize(self) -> None:
        """End the worker; unfinished sequences are closed so that Triton can release their requests."""
        self.arrivals.put(None)
        self.worker.join(timeout=10)

    def _serve(self) -> None:
        try:
            while self._admit():
                self._step()
            for sequence in (*self.waiting, *self.rows, *(given_up for _, given_up in self.given_up)):
                sequence.sender.send(flags=FINAL)
        except BaseException as error:  # noqa: BLE001
            # A worker that dies silently leaves every client waiting for its timeout; a dead stub is an error at once.
            pb_utils.Logger.log_error(f"generation failed: {type(error).__name__}: {error}")
            os._exit(1)

    def _admit(self) -> bool:
        """Give rows to what has arrived, first come first served, as far as the next step can begin with it; False: the model is to end."""
        while True:
            # Only an idle worker blocks, so that an arrival is never noticed later than after one step.
            idle = not self.rows and not self.waiting
            try:
                sequence = self.arrivals.get(block=idle, timeout=self._close_given_up())
            except queue.Empty:
                break
            if sequence is None:
                return False
            self.waiting.append(sequence)
        while self.waiting and not self.model.full and self.model.pending < PREFILL_TOKENS[self.device]:
            sequence = self.waiting.popleft()
            if sequence.sender.is_cancelled():
                self._give_up(sequence)
                continue
            sequence.started = time.monotonic()
            known = self.prefixes.known(sequence.prompt) if self.prefixes else None
            self.model.admit(sequence.prompt, known)
            self.rows.append(sequence)
        return True

    def _step(self) -> None:
        """One token for every generating sequence; the finished and the cancelled give up their rows."""
        if not self.rows:
            return
        before = self.model.generating
        tokens = self.model.step(PREFILL_TOKENS[self.device]).to("cpu", torch.int32)
        self._prefilled(before, len(tokens))
        # Not `split`: of no tokens, where a step was all of a prompt's beginning, that makes one empty token.
        for sequence, token in zip(self.rows, tokens[:, None].unbind(), strict=False):
            self._send(sequence, token)
        for row in reversed(range(len(self.rows))):
            sequence = self.rows[row]
            cancelled = sequence.sent < sequence.wanted and sequence.sender.is_cancelled()
            if cancelled:
                self._give_up(sequence)
            if cancelled or sequence.sent == sequence.wanted:
                close_up(self.rows, row, self.model.generating)
                self.model.release(row)

    def _prefilled(self, begin: int, end: int) -> None:
        now = time.monotonic()
        for row in range(begin, end):
            self.rows[row].prefilled = now
            if self.prefixes:
                self.prefixes.keep(self.rows[row].prompt, self.model.cache[:, row])
                self._count(self.prefixes)

    def _count(self, prefixes: Prefixes) -> None:
        self.counters.reach(prefix_cache_hits=prefixes.hits, prefix_cache_misses=prefixes.misses)

    def _give_up(self, sequence: Sequence) -> None:
        self.given_up.append((time.monotonic() + CLOSE_AFTER_S, sequence))

    def _close_given_up(self) -> float | None:
        """Close what was given up long enough ago; seconds until the next is due, None if there is none."""
        while self.given_up:
            due, sequence = self.given_up[0]
            if (left := due - time.monotonic()) > 0:
                return left
            self.given_up.popleft()
            sequence.sender.send(flags=FINAL)
        return None

    def _send(self, sequence: Sequence, token: torch.Tensor) -> None:
        final = sequence.sent + 1 == sequence.wanted
        outputs = [output("TOKEN", token), output("INDEX", self.indices[sequence.sent])]
        if sequence.answer is not None:
            began = time.monotonic()
            outputs.append(output("TEXT", sequence.answer.add(int(token))))
            sequence.post_processing += time.monotonic() - began
            if final:
                outputs.append(output("INPUT_TOKENS", torch.tensor([len(sequence.prompt)], dtype=torch.int32)))
        if final:
            outputs.append(output("SERVER_TIMES", _times(sequence)))
        sequence.sender.send(pb_utils.InferenceResponse(outputs), flags=FINAL if final else 0)
        sequence.sent += 1
        if final:
            self.journal.finished(sequence.request_id)


def _times(sequence: Sequence) -> torch.Tensor:
    decode = time.monotonic() - sequence.prefilled - sequence.post_processing
    queued, prefill = sequence.started - sequence.arrived, sequence.prefilled - sequence.started
    return torch.tensor([sequence.tokenization, queued, prefill, decode, sequence.post_processing], dtype=torch.float64)
