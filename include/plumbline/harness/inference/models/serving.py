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

# Tritonserver up to 24.11 can crash when a stream's final response meets the cancellation of that stream
# (triton-inference-server/server, pull request 7840). So a request that was given up stops costing anything at once, and is closed only when
# the server has long dealt with its cancellation.
CLOSE_AFTER_S = 0.5


def parameters_of(args: dict[str, str]) -> dict[str, str]:
    """What config.pbtxt's `parameters` say."""
    return {key: value["string_value"] for key, value in json.loads(args["model_config"])["parameters"].items()}


def tensor_of(request: Any, name: str) -> Tensor | None:
    """An input of a request, flat; None if it was not sent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else from_dlpack(tensor.to_dlpack()).reshape(-1)


def output(name: str, values: Tensor) -> Any:
    """An output. Handed over by DLPack: numpy 2 arrays arrive at the client as zero bytes, without any error."""
    return pb_utils.Tensor.from_dlpack(name, values)


def introduce(model: nn.Module, **facts: Any) -> None:
    """Log one line in which the model says what it is: the harness reads it."""
    weights = next(model.parameters())
    about = {
        "python": sys.version.split()[0],
        "prefix": sys.prefix,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": str(weights.device),
        "dtype": str(weights.dtype).removeprefix("torch."),
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


class Text:
    """The model's tokenizer; OSError-like exceptions of `tokenizers` if its file is not there."""

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer  # here: a model that is sent ids needs no tokenizer

        self.tokenizer = Tokenizer.from_file(str(file))

    def ids(self, text: Tensor) -> Tensor:
        """UTF-8 as uint8 [bytes] → token ids, int64 [tokens]; UnicodeDecodeError if it is none."""
        words = text.contiguous().numpy().tobytes().decode("utf-8")
        return torch.tensor(self.tokenizer.encode(words, add_special_tokens=False).ids, dtype=torch.long)

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
        piece = (self._stream.step(self._tokenizer, token) or "").encode()
        return torch.frombuffer(bytearray(piece), dtype=torch.uint8) if piece else torch.empty(0, dtype=torch.uint8)
