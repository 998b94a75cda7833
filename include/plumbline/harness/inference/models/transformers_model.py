"""A checkpoint with transformers as a model of Triton's Python backend: the plain forward pass that other engines are compared with.

A prompt is computed by itself; the sequences that generate take each step together where their caches can be joined (rows.py), else in turns.
Times are the worker's own."""

from __future__ import annotations

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

sys.path.insert(0, str(Path(__file__).parent))
from generation import Ending, Generation, Piece, Request, Scores  # type: ignore[import-not-found]

# After generation.py, which sets the locale.
# isort: split
import torch
from rows import Rows, choice  # type: ignore[import-not-found]
from serving import weights_of  # type: ignore[import-not-found]


@dataclass
class _Batch:
    """Sequences that generate together, in the order of their rows."""

    rows: Any
    sequences: list[_Sequence]


@dataclass
class _Sequence:
    """One request while it is computed. Moments are monotonic seconds."""

    request: Request
    arrived: float
    pieces: asyncio.Queue[Piece | Exception]
    answer: Any
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
        weights = next(self.model.parameters())
        vocabulary = self.model.get_output_embeddings().weight.shape[0]
        # Made here: made for each token, they would have to be copied to the device each time.
        self.nothing = torch.zeros(vocabulary, dtype=torch.bool, device=weights.device)
        self.end_of_text = self.nothing.clone()
        self.end_of_text[[end for end in self.ends if end < vocabulary]] = True
        self.computing = threading.Thread(target=self._compute, name="compute", daemon=True)
        self.computing.start()
        return {
            "engine": "transformers",
            "engine_version": transformers.__version__,
            **weights_of(self.model),
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }

    async def generate(self, request: Request) -> AsyncIterator[Piece]:
        answer = self.text.answer() if self.text else None
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
        batches: list[_Batch] = []
        while self._admit(waiting, idle=not waiting and not batches):
            running = sum(len(batch.sequences) for batch in batches)
            # One prompt a round: those that generate wait for no more than that.
            if waiting and running < self.sequences:
                self._prefill(waiting.popleft(), batches)
            for batch in batches:
                self._step(batch)
            batches = [batch for batch in batches if batch.sequences]

    def _admit(self, waiting: deque[_Sequence], *, idle: bool) -> bool:
        """Move what has arrived to `waiting`, and wait for it if idle; False: the model is to end."""
        while True:
            try:
                arrived = self.arrivals.get(block=idle)
            except queue.Empty:
                return True
            if arrived is None:
                return False
            waiting.append(arrived)
            idle = False

    @torch.inference_mode()
    def _prefill(self, sequence: _Sequence, batches: list[_Batch]) -> None:
        """The first token; what goes on joins a batch that it fits."""
        if sequence.closed:
            return
        request, sequence.started = sequence.request, time.monotonic()
        try:
            ids = torch.tensor([request.prompt], device=self.device)
            output = self.model(input_ids=ids, use_cache=True, logits_to_keep=0 if request.score else 1)
            if request.score:
                sequence.scores = _scores(output.logits[0, :-1], ids[0, 1:])
            banned = self.nothing if request.natural else self.end_of_text
            last = choice(output.logits[:, -1], banned[None])
            token = int(last)
            sequence.prefilled = time.monotonic()
            if self._send_token(sequence, token):
                return
            rows = Rows(output.past_key_values, len(request.prompt), last, banned)
            batch = next((batch for batch in batches if batch.rows.fits(rows)), None)
            if batch is None:
                batches.append(_Batch(rows, [sequence]))
            else:
                batch.rows.join(rows)
                batch.sequences.append(sequence)
        except Exception as error:  # noqa: BLE001 - it is the answer to this request
            self._fail(sequence, error)

    def _step(self, batch: _Batch) -> None:
        """One token for each sequence; the finished and the closed leave."""
        try:
            if any(sequence.closed for sequence in batch.sequences):
                self._keep_rows(batch, [not sequence.closed for sequence in batch.sequences])
            if batch.sequences:
                tokens = batch.rows.step(self.model)
                ended = [self._send_token(sequence, token) for sequence, token in zip(batch.sequences, tokens, strict=True)]
                self._keep_rows(batch, [not each for each in ended])
        except Exception as error:  # noqa: BLE001 - it is the answer to these requests
            for sequence in batch.sequences:
                self._fail(sequence, error)
            batch.sequences = []

    def _keep_rows(self, batch: _Batch, stays: list[bool]) -> None:
        rows = [row for row, each in enumerate(stays) if each]
        batch.sequences = [batch.sequences[row] for row in rows]
        if rows:
            batch.rows.keep(rows)

    def _send_token(self, sequence: _Sequence, token: int) -> bool:
        """Hand over a token; whether it was the last."""
        sequence.tokens.append(token)
        last = len(sequence.tokens) == sequence.request.tokens or token in self.ends
        text = bytes(sequence.answer.add(token).tolist()).decode() if sequence.answer else ""
        ending = None
        if last:
            decode_s = time.monotonic() - sequence.prefilled
            ending = Ending(sequence.started - sequence.arrived, sequence.prefilled - sequence.started, decode_s, 0, sequence.scores)
        self.loop.call_soon_threadsafe(sequence.pieces.put_nowait, Piece([token], text, ending))
        return last

    def _fail(self, sequence: _Sequence, error: Exception) -> None:
        self.loop.call_soon_threadsafe(sequence.pieces.put_nowait, error)


def _scores(logits: torch.Tensor, tokens: torch.Tensor) -> Scores:
    """Scores of `tokens` [n], each predicted by its row of `logits` [n, vocabulary]."""
    log_probabilities = logits.float().log_softmax(dim=1).gather(1, tokens[:, None])[:, 0]
    return Scores(log_probabilities.tolist(), (logits.argmax(dim=1) == tokens).tolist())
