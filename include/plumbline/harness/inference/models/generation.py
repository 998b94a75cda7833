"""Triton's side of an inference engine that generates text: requests in, decoupled responses out, one for each piece that the engine gives.

In    PROMPT_IDS int32 [tokens], or PROMPT uint8 [bytes] (UTF-8; the ids are taken if both come); MAX_TOKENS int32 [1]; NATURAL int32 [1]: 1 if
      the answer may end before (else the model's end of text is never chosen); ADAPTER uint8 [bytes]: the name of a LoRA adapter; SCORE
      int32 [1]: 1 asks for the log-probabilities of the prompt's own tokens
Out   TOKENS int32 [tokens] and COUNT int32 [1] with every response, TEXT uint8 [bytes] too if the model speaks text; with the last one
      SERVER_TIMES fp64 [5]: seconds of tokenization, queue, prefill, decode, post-processing; INPUT_TOKENS and CACHED_TOKENS int32 [1];
      of a prompt that is scored, for each token after the first: LOG_PROBABILITIES fp32 (nats), GREEDY int32 (1: the most probable token)

An engine's model.py defines `TritonPythonModel(Generation)` with `start`, `generate` and `stop`. Text is uint8: under numpy 2 the backend cannot
carry Triton's own strings.
"""

from __future__ import annotations

import locale
from contextlib import suppress

# The stub runs in the C locale and ignores PYTHONUTF8: files that torch and engines read in the locale's encoding are UTF-8. Before they are imported.
with suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "C.UTF-8")

import asyncio
import json
import os
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton_python_backend_utils as pb_utils
from journal import Journal  # type: ignore[import-not-found]
from serving import (  # type: ignore[import-not-found]
    CLOSE_AFTER_S,
    FINAL,
    Counters,
    Text,
    bytes_of,
    introduce,
    leave_with_server,
    output,
    parameters_of,
    prompt_of,
    refusal,
    string_of,
    tensor_of,
)

_SWEEP_S = 0.25
_COUNTS = [torch.tensor([n], dtype=torch.int32) for n in range(64)]


class Scores(NamedTuple):
    """Scores of each token of the prompt after the first: its log-probability (nats), and whether it is the most probable one."""

    log_probabilities: Sequence[float]
    greedy: Sequence[bool]


class Ending(NamedTuple):
    """The engine's own account of a finished request: seconds, prompt tokens that its prefix cache had, and scores if they were asked for."""

    queue_s: float
    prefill_s: float
    decode_s: float
    cached_tokens: int
    scores: Scores | None = None


class Piece(NamedTuple):
    """Tokens that the engine gives together, their text, and with the last piece the request's ending."""

    tokens: Sequence[int]
    text: str = ""
    ending: Ending | None = None


@dataclass
class Request:
    """One request. `natural`: it may end at the model's end of text. `adapter`: empty for the base model."""

    number: str
    prompt: list[int]
    tokens: int
    natural: bool
    adapter: str
    score: bool
    tokenization_s: float


class Generation(ABC):
    """The engine lives on an event loop in a thread of its own; responses leave from another thread, so that sending delays no other request."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the engine as config.pbtxt's parameter `settings` (JSON) says; raises what the engine raises."""
        began = time.monotonic()
        self.settings: dict[str, Any] = json.loads(parameters_of(args)["settings"])
        # The stub is no interpreter: what an engine starts beside itself needs one.
        import multiprocessing

        # It ignores PYTHONPATH too: the engine Python's packages are found as that Python finds them.
        here = str(Path(__file__).parent)
        sys.path[:] = list(dict.fromkeys([here, *self.settings["search_path"], *sys.path]))
        sys.executable = self.settings["python"]
        multiprocessing.set_executable(sys.executable)
        for name, value in self.settings["variables"].items():
            os.environ.setdefault(name, value)
        self.text = Text(self.settings["tokenizer"], special=self.settings["special_tokens"]) if self.settings["text"] else None
        self.journal = Journal(Path(__file__).parent)
        self.counters = Counters(args["model_name"])
        self.active: dict[asyncio.Task[None], Any] = {}
        self.outbox: queue.SimpleQueue[tuple[Any, Any, int, str] | None] = queue.SimpleQueue()
        self.sender = threading.Thread(target=self._deliver, name="send", daemon=True)
        self.sender.start()
        self.loop = asyncio.new_event_loop()
        self.worker = threading.Thread(target=self.loop.run_forever, name="engine", daemon=True)
        self.worker.start()
        about = asyncio.run_coroutine_threadsafe(self.start(self.settings), self.loop).result()
        asyncio.run_coroutine_threadsafe(self._sweep(), self.loop)
        leave_with_server()
        introduce(**{"threads": self.settings["threads"], "build_s": time.monotonic() - began, **about})

    def execute(self, requests: list[Any]) -> None:
        """Hand requests to the engine and return at once: Triton keeps delivering while earlier ones stream."""
        for request in requests:
            self.journal.started(request.request_id())
            sender = request.get_response_sender()
            try:
                parsed = self._read(request)
            except ValueError as error:
                self.outbox.put((sender, refusal(str(error)), FINAL, ""))
                continue
            self.loop.call_soon_threadsafe(self._begin, parsed, sender)

    def finalize(self) -> None:
        """End the engine; unfinished requests are closed so that Triton can release them."""
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(timeout=30)
        self.outbox.put(None)
        self.sender.join(timeout=10)
        self.loop.call_soon_threadsafe(self.loop.stop)

    # What an engine defines

    @abstractmethod
    async def start(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Start the engine and return what it says about itself: engine, engine_version, device, dtype, parameters …"""

    @abstractmethod
    def generate(self, request: Request) -> AsyncIterator[Piece]:
        """The answer's pieces; closing the iterator ends the request. ValueError for a request that the engine refuses."""

    @abstractmethod
    async def stop(self) -> None: ...

    def broken(self) -> bool:
        """Whether the engine can answer no further request."""
        return False

    def drafted(self) -> tuple[int, int] | None:
        """Tokens that speculative decoding has proposed, and those accepted, since the start; None without it."""
        return None

    # Requests

    def _read(self, request: Any) -> Request:
        began = time.monotonic()
        max_tokens = int(tensor_of(request, "MAX_TOKENS")[0])
        prompt = prompt_of(request, self.text).tolist()
        took = time.monotonic() - began if self.text else 0.0
        n, context = len(prompt), self.settings["context"]
        if n < 1 or max_tokens < 1 or n + max_tokens > context:
            raise ValueError(f"{n} tokens in, {max_tokens} out; expected at least 1 each and at most {context} in all")
        natural, adapter, score = (tensor_of(request, name) for name in ("NATURAL", "ADAPTER", "SCORE"))
        name = "" if adapter is None else string_of(adapter)
        if name and name not in self.settings["adapters"]:
            raise ValueError(f"no adapter {name}; expected one of {', '.join(self.settings['adapters']) or 'none'}")
        return Request(request.request_id(), prompt, max_tokens, _is_set(natural), name, _is_set(score), took)

    def _begin(self, request: Request, sender: Any) -> None:
        task = self.loop.create_task(self._serve(request, sender))
        self.active[task] = sender
        task.add_done_callback(lambda ended: self.active.pop(ended, None))

    async def _serve(self, request: Request, sender: Any) -> None:
        pieces = self.generate(request)
        try:
            async for piece in pieces:
                self._send(request, sender, piece)
                if piece.ending is not None:
                    return
            self._close(sender, refusal("the engine ended the request without its last token"))
        except asyncio.CancelledError:
            # The client gave up: the engine stops at once, and the response is closed when the server has dealt with the cancellation.
            await pieces.aclose()  # type: ignore[attr-defined]  # generators have it
            await asyncio.sleep(CLOSE_AFTER_S)
            self._close(sender, None)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is the answer to this request
            self._close(sender, refusal(f"{type(error).__name__}: {error}"))
            if self.broken():
                pb_utils.Logger.log_error(f"the engine has ended: {type(error).__name__}: {error}")
                os._exit(1)  # a dead stub is an error at once; a dead engine behind a live one is a timeout for every client

    def _send(self, request: Request, sender: Any, piece: Piece) -> None:
        tokens = torch.tensor(list(piece.tokens), dtype=torch.int32)
        n = len(tokens)
        outputs = [output("TOKENS", tokens), output("COUNT", _COUNTS[n] if n < len(_COUNTS) else torch.tensor([n], dtype=torch.int32))]
        if self.text:
            outputs.append(output("TEXT", bytes_of(piece.text)))
        if piece.ending is not None:
            ending, read = piece.ending, len(request.prompt)
            # Post-processing is part of what the client sees as delivery: the engine does not tell it apart.
            times = [request.tokenization_s, max(0.0, ending.queue_s), max(0.0, ending.prefill_s), max(0.0, ending.decode_s), 0.0]
            outputs.append(output("SERVER_TIMES", torch.tensor(times, dtype=torch.float64)))
            outputs.append(output("INPUT_TOKENS", torch.tensor([read], dtype=torch.int32)))
            outputs.append(output("CACHED_TOKENS", torch.tensor([ending.cached_tokens], dtype=torch.int32)))
            if ending.scores is not None:
                outputs.append(output("LOG_PROBABILITIES", torch.tensor(list(ending.scores.log_probabilities), dtype=torch.float32)))
                outputs.append(output("GREEDY", torch.tensor(list(ending.scores.greedy), dtype=torch.int32)))
            self.counters.add(prefix_cache_hits=ending.cached_tokens, prefix_cache_misses=read - ending.cached_tokens)
            if len(self.active) == 1:
                self._count_drafts()
        if piece.ending is not None:
            self._close(sender, pb_utils.InferenceResponse(outputs), request.number)
        else:
            self.outbox.put((sender, pb_utils.InferenceResponse(outputs), 0, ""))

    def _close(self, sender: Any, response: Any, finished: str = "") -> None:
        """The running task's last response. Triton forgets the request with it: to ask then whether it was cancelled ends the server."""
        task = asyncio.current_task()
        if task is not None and task in self.active:
            self.active[task] = None
        self.outbox.put((sender, response, FINAL, finished))

    def _deliver(self) -> None:
        while (item := self.outbox.get()) is not None:
            sender, response, flags, finished = item
            try:
                sender.send(flags=flags) if response is None else sender.send(response, flags=flags)
            except Exception as error:  # noqa: BLE001 - one response that Triton refuses must not end all others
                pb_utils.Logger.log_error(f"a response was not sent: {type(error).__name__}: {error}")
                continue
            if finished:
                self.journal.finished(finished)

    async def _sweep(self) -> None:
        """End requests whose clients gave up. Off the path of tokens: asking Triton takes a round trip between processes."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            for task, sender in list(self.active.items()):
                if sender is not None and sender.is_cancelled():
                    self.active[task] = None  # once: a second cancellation would end the task before its response is closed
                    task.cancel()
            self._count_drafts()

    def _count_drafts(self) -> None:
        drafts = self.drafted()
        if drafts is not None:
            self.counters.reach(draft_tokens=drafts[0], accepted_draft_tokens=drafts[1])

    async def _end(self) -> None:
        for task in list(self.active):
            task.cancel()
        await asyncio.gather(*self.active, return_exceptions=True)
        await self.stop()


def _is_set(flag: Any) -> bool:
    return flag is not None and bool(flag[0])
