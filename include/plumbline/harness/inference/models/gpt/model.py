"""Triton's side of the model: requests in, one decoupled response a token out, sequences batched at every step.

Tensors: PROMPT_IDS int32 [tokens] and MAX_TOKENS int32 [1] in; TOKEN int32 [1] and INDEX int32 [1] out with every response, and
SERVER_TIMES fp64 [3] with the last one: the seconds that the request waited for a row, was prefilled, and decoded.

Outputs are handed over by DLPack: numpy 2 arrays arrive at the client as zero bytes, without any error.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack

# The stub imports this file as a member of a package named after the version folder and puts no such folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
from transformer import Transformer, seeded  # type: ignore[import-not-found]

# Tritonserver up to 24.11 can crash when a stream's final response meets the cancellation of that stream
# (triton-inference-server/server, pull request 7840). So a request that was given up stops costing anything at once, and is closed only when
# the server has long dealt with its cancellation.
CLOSE_AFTER_S = 0.5

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


@dataclass
class Sequence:
    """One request while it is served. Times are monotonic seconds."""

    sender: Any
    prompt: torch.Tensor
    wanted: int
    arrived: float = field(default_factory=time.monotonic)
    started: float = 0.0
    prefilled: float = 0.0
    sent: int = 0


class TritonPythonModel:
    """One worker thread owns the transformer: it admits what has arrived, then generates one token for every sequence, and again."""

    def initialize(self, args: dict[str, str]) -> None:
        """Build the model as config.pbtxt's parameters say; raises what torch raises if the device is not there."""
        began = time.monotonic()
        parameters = {k: v["string_value"] for k, v in json.loads(args["model_config"])["parameters"].items()}
        torch.set_num_threads(int(parameters["threads"]))
        self.device = parameters["device"]
        shape = {key: int(parameters[key]) for key in ("layers", "width", "heads", "vocabulary", "context", "sequences")}
        self.model: Transformer = seeded(int(parameters["seed"]), self.device, **shape)
        self.arrivals: queue.SimpleQueue[Sequence | None] = queue.SimpleQueue()
        self.waiting: list[Sequence] = []
        self.rows: list[Sequence] = []
        self.given_up: deque[tuple[float, Sequence]] = deque()
        self.worker = threading.Thread(target=self._serve, name="generate", daemon=True)
        self.worker.start()
        _leave_with(os.getppid())
        about = {
            "python": sys.version.split()[0],
            "prefix": sys.prefix,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": self.device,
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "build_s": time.monotonic() - began,
        }
        pb_utils.Logger.log_info(f"plumbline-model {json.dumps(about)}")

    def execute(self, requests: list[Any]) -> None:
        """Hand requests to the worker and return at once: Triton keeps delivering while earlier ones stream."""
        for request in requests:
            sequence = Sequence(
                request.get_response_sender(),
                from_dlpack(pb_utils.get_input_tensor_by_name(request, "PROMPT_IDS").to_dlpack()).long().reshape(-1),
                int(from_dlpack(pb_utils.get_input_tensor_by_name(request, "MAX_TOKENS").to_dlpack()).reshape(-1)[0]),
            )
            total = sequence.prompt.shape[0] + sequence.wanted
            if sequence.wanted < 1 or sequence.prompt.shape[0] < 1 or total > self.model.context:
                problem = f"{sequence.prompt.shape[0]} tokens in, {sequence.wanted} out; expected at least 1 each and at most {self.model.context} in all"
                sequence.sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(problem)), flags=FINAL)
            else:
                self.arrivals.put(sequence)

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
        """Prefill what has arrived, first come first served, while there are free rows; False when the model is to end."""
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
        while self.waiting and not self.model.full:
            sequence = self.waiting.pop(0)
            if sequence.sender.is_cancelled():
                self._give_up(sequence)
                continue
            sequence.started = time.monotonic()
            token = self.model.admit(sequence.prompt.to(self.device))
            self.rows.append(sequence)
            first = token.to("cpu", torch.int32)
            sequence.prefilled = time.monotonic()
            self._send(sequence, first)
            if sequence.sent == sequence.wanted:
                self._release(len(self.rows) - 1)
        return True

    def _step(self) -> None:
        """One token for every sequence; the finished and the cancelled give up their rows."""
        if not self.rows:
            return
        tokens = self.model.step().to("cpu", torch.int32)
        for sequence, token in zip(self.rows, tokens.split(1), strict=True):
            self._send(sequence, token)
        for row in reversed(range(len(self.rows))):
            sequence = self.rows[row]
            if sequence.sent == sequence.wanted:
                self._release(row)
            elif sequence.sender.is_cancelled():
                self._give_up(sequence)
                self._release(row)

    def _release(self, row: int) -> None:
        self.model.release(row)
        last = self.rows.pop()
        if row < len(self.rows):
            self.rows[row] = last

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
        outputs = [
            pb_utils.Tensor.from_dlpack("TOKEN", token.clone()),
            pb_utils.Tensor.from_dlpack("INDEX", torch.tensor([sequence.sent], dtype=torch.int32)),
        ]
        if final:
            now = time.monotonic()
            times = (sequence.started - sequence.arrived, sequence.prefilled - sequence.started, now - sequence.prefilled)
            outputs.append(pb_utils.Tensor.from_dlpack("SERVER_TIMES", torch.tensor(times, dtype=torch.float64)))
        sequence.sender.send(pb_utils.InferenceResponse(outputs), flags=FINAL if final else 0)
        sequence.sent += 1


def _leave_with(parent: int) -> None:
    """End this process as soon as the server's ends, however it ended.

    The stub's own watch does not see that a server is dead until somebody has reaped it, and in a container often nobody does.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="leave-with-server", daemon=True).start()
