"""Shared by all models on Triton's Python backend: parameters, tensors, introduction line, shutdown, text in and out."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
import triton_python_backend_utils as pb_utils
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
# Tritonserver up to 24.11 can crash when a stream's final response meets the cancellation of that stream
# (triton-inference-server/server, pull request 7840). So a request that was given up stops costing anything at once, and is closed only when
# the server has long dealt with its cancellation.
CLOSE_AFTER_S = 0.5
_COUNTERS = {
    "prefix_cache_hits": "prompt tokens found in the prefix cache",
    "prefix_cache_misses": "prompt tokens that were computed",
    "draft_tokens": "tokens that speculative decoding proposed",
    "accepted_draft_tokens": "proposed tokens that the model accepted",
}


def parameters_of(args: dict[str, str]) -> dict[str, str]:
    """The `parameters` of config.pbtxt."""
    return {key: value["string_value"] for key, value in json.loads(args["model_config"])["parameters"].items()}


def tensor_of(request: Any, name: str) -> Tensor | None:
    """An input of a request, flat; None if it was not sent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else from_dlpack(tensor.to_dlpack()).reshape(-1)


def prompt_of(request: Any, text: Text | None) -> Tensor:
    """A request's PROMPT_IDS, else its PROMPT by `text` (None: the model takes ids alone): int64 [tokens]. ValueError without either."""
    ids = tensor_of(request, "PROMPT_IDS")
    if ids is not None:
        return Tensor.long(ids)
    sent = tensor_of(request, "PROMPT") if text else None
    if sent is None or text is None:
        raise ValueError("a request without a prompt; expected PROMPT_IDS" + (" or PROMPT" if text else ""))
    return text.ids(sent)


def refusal(problem: str) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(problem))


def output(name: str, values: Tensor) -> Any:
    """An output. Handed over by DLPack: numpy 2 arrays arrive at the client as zero bytes, without any error."""
    return pb_utils.Tensor.from_dlpack(name, values)


def string_of(values: Tensor) -> str:
    """UTF-8 as uint8 [bytes] as text; UnicodeDecodeError if it is none."""
    return values.contiguous().numpy().tobytes().decode("utf-8")


def bytes_of(text: str) -> Tensor:
    """UTF-8 as uint8 [bytes]."""
    encoded = text.encode()
    return torch.frombuffer(bytearray(encoded), dtype=torch.uint8) if encoded else torch.empty(0, dtype=torch.uint8)


def weights_of(model: nn.Module) -> dict[str, str]:
    """Where a model's weights are, and of which type."""
    weights = next(model.parameters())
    return {"device": str(weights.device), "dtype": str(weights.dtype).removeprefix("torch.")}


def introduce(**facts: Any) -> None:
    """Log one line in which the model says what it is: the harness reads it."""
    about = {
        "python": sys.version.split()[0],
        "prefix": sys.prefix,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        **facts,
    }
    pb_utils.Logger.log_info(f"plumbline-model {json.dumps(about)}")


def leave_with_server() -> None:
    """End this process as soon as the server's ends, however it ended.

    The stub's own watch does not see that a server is dead until somebody has reaped it, and in a container often nobody does.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="leave-with-server", daemon=True).start()


class Counters:
    """Counters on Triton's own metrics page; one appears with its first event."""

    def __init__(self, model: str) -> None:
        self._labels = {"model": model}
        self._metrics: dict[str, Any] = {}
        self._families: dict[str, Any] = {}
        self._values: dict[str, int] = {}

    def add(self, **gained: int) -> None:
        for name, by in gained.items():
            if name not in self._metrics:
                family = pb_utils.MetricFamily(name=f"plumbline_{name}", description=_COUNTERS[name], kind=pb_utils.MetricFamily.COUNTER)
                self._families[name], self._metrics[name] = family, family.Metric(labels=self._labels)
            self._values[name] = self._values.get(name, 0) + by
            if by:
                self._metrics[name].increment(by)

    def reach(self, **totals: int) -> None:
        self.add(**{name: max(0, total - self._values.get(name, 0)) for name, total in totals.items()})


class Text:
    """The model's tokenizer; OSError-like exceptions of `tokenizers` if its file is not there. `special`: prompts get the tokenizer's own first
    and last tokens, as OpenAI-compatible servers add them."""

    def __init__(self, file: Path, *, special: bool = False) -> None:
        from tokenizers import Tokenizer  # here: a model that is sent ids needs no tokenizer

        self.tokenizer, self._special = Tokenizer.from_file(str(file)), special

    def ids(self, text: Tensor) -> Tensor:
        """UTF-8 as uint8 [bytes] → token ids, int64 [tokens]; UnicodeDecodeError if it is none."""
        return torch.tensor(self.tokenizer.encode(string_of(text), add_special_tokens=self._special).ids, dtype=torch.long)

    def answer(self) -> Answer:
        """A new answer to be written."""
        return Answer(self.tokenizer)


class Answer:
    """Tokens become text as they come."""

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer, self._stream = tokenizer, DecodeStream(skip_special_tokens=True)

    def add(self, token: int) -> Tensor:
        """The text that a token adds, UTF-8 as uint8 [bytes]; empty while a character is not complete."""
        return bytes_of(self._stream.step(self._tokenizer, token) or "")
