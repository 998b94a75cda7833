"""A checkpoint with transformers as a model of Triton's Python backend: the plain forward pass that other engines are compared with.

Sequences take turns, one token each; nothing is batched. Times are the worker's own."""

from __future__ import annotations

import locale
from contextlib import suppress

# See vllm_model.py: before torch is imported.
with suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "C.UTF-8")

import asyncio
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from generation import Ending, Generation, Piece, Request, Scores  # type: ignore[import-not-found]
from serving import Answer  # type: ignore[import-not-found]


@dataclass
class _Sequence:
    """One request while it is computed. Moments are monotonic seconds."""

    request: Request
    arrived: float
    pieces: asyncio.Queue[Piece | Exception]
    answer: Any
    cache: Any = None
    tokens: list[int] = field(default_factory=list)
    started: float = 0.0
    prefilled: float = 0.0
    scores: Scores | None = None
    closed: bool = False


class TritonPythonModel(Generation):  # type: ignore[misc]
    async def start(self, settings: dict[str, Any]) -> dict[str, Any]:
        import transformers

        torch.set_num_threads(settings["threads"])
        self.device, folder = settings["device"], settings["engine_args"]["model"]
        dtype = getattr(torch, settings["engine_args"]["dtype"])
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).to(self.device).eval()
        ends = self.model.generation_config.eos_token_id
        self.ends = set(ends) if isinstance(ends, list) else {ends} - {None}
        self.arrivals: queue.SimpleQueue[_Sequence | None] = queue.SimpleQueue()
        self.sequences: int = settings["engine_args"]["sequences"]
        self.computing = threading.Thread(target=self._compute, name="compute", daemon=True)
        self.computing.start()
        weights = next(self.model.parameters())
        return {
            "engine": "transformers",
            "engine_version": transformers.__version__,
            "device": str(weights.device),
            "dtype": str(weights.dtype).removeprefix("torch."),
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }

    async def generate(self, request: Request) -> AsyncIterator[Piece]:
        answer = Answer(self.text.tokenizer) if self.text else None
        sequence = _Sequence(request, time.monotonic(), asyncio.Queue(), answer)
        self.arrivals.put(sequence)
        try:
            while True:
                piece = await sequence.pieces.get()
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            sequence.closed = True

    async def stop(self) -> None:
        self.arrivals.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self.computing.join, 10.0)

    def broken(self) -> bool:
        return not self.computing.is_alive()

    def _compute(self) -> None:
        waiting: deque[_Sequence] = deque()
        running: deque[_Sequence] = deque()
        while True:
            while True:
                try:
                    arrived = self.arrivals.get(block=not waiting and not running)
                except queue.Empty:
                    break
                if arrived is None:
                    return
                waiting.append(arrived)
            while waiting and len(running) < self.sequences:
                running.append(waiting.popleft())
            sequence = running.popleft()
            try:
                if not sequence.closed and not self._step(sequence):
                    running.append(sequence)
            except Exception as error:  # noqa: BLE001 - it is the answer to this request
                self.loop.call_soon_threadsafe(sequence.pieces.put_nowait, error)

    @torch.inference_mode()
    def _step(self, sequence: _Sequence) -> bool:
        """One token; whether it was the last."""
        request, first = sequence.request, not sequence.tokens
        if first:
            sequence.started = time.monotonic()
        ids = torch.tensor([request.prompt if first else sequence.tokens[-1:]], device=self.device)
        found = self.model(
            input_ids=ids, past_key_values=sequence.cache, use_cache=True, logits_to_keep=0 if first and request.score else 1
        )
        if first and request.score:
            sequence.scores = _scores(found.logits[0, :-1], ids[0, 1:])
        sequence.cache, scores = found.past_key_values, found.logits[0, -1].float()
        if not request.natural:
            scores[list(self.ends)] = float("-inf")
        token = int(scores.argmax())
        sequence.tokens.append(token)
        now = time.monotonic()
        if first:
            sequence.prefilled = now
        last = len(sequence.tokens) == request.tokens or token in self.ends
        text = bytes(sequence.answer.add(token).tolist()).decode() if sequence.answer else ""
        ending = None
        if last:
            ending = Ending(
                sequence.started - sequence.arrived, sequence.prefilled - sequence.started, now - sequence.prefilled, 0, sequence.scores
            )
        self.loop.call_soon_threadsafe(sequence.pieces.put_nowait, Piece([token], text, ending))
        return last


def _scores(logits: torch.Tensor, tokens: torch.Tensor) -> Scores:
    """Of `tokens` [n], each predicted by its row of `logits` [n, vocabulary]."""
    log_probabilities = logits.float().log_softmax(dim=1).gather(1, tokens[:, None])[:, 0]
    return Scores(log_probabilities.tolist(), (logits.argmax(dim=1) == tokens).tolist())
