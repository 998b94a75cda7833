"""The plainest client of the streaming model, to hold the load client's and the model's promises against."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc


@dataclass
class Stream:
    """One answer: token ids, and the monotonic seconds of its first token and its end."""

    tokens: list[int] = field(default_factory=list)
    first: float = 0.0
    ended: float = 0.0


def stream(address: str, model: str, prompts: Sequence[NDArray[np.int32]], tokens: int) -> list[Stream]:
    """Send all prompts at once, one thread each, and return their answers."""
    answers = [Stream() for _ in prompts]

    def one(prompt: NDArray[np.int32], answer: Stream) -> None:
        for message in stub.ModelStreamInfer(iter([_request(model, prompt, tokens)]), timeout=30):
            assert not message.error_message, message.error_message
            answer.tokens.append(int(np.frombuffer(message.infer_response.raw_output_contents[0], "<i4")[0]))
            answer.first = answer.first or time.monotonic()
        answer.ended = time.monotonic()

    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        threads = [threading.Thread(target=one, args=pair) for pair in zip(prompts, answers, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return answers


def cancelled_after(address: str, model: str, prompt: NDArray[np.int32], tokens: int) -> int:
    """Ask for a long answer, give it up after `tokens` of it, and return how many came."""
    with grpc.insecure_channel(address) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([_request(model, prompt, 64)]), timeout=30)
        for i, message in enumerate(call, start=1):
            assert not message.error_message, message.error_message
            if i == tokens:
                call.cancel()
                return i
    return 0


def _request(model: str, prompt: NDArray[np.int32], tokens: int) -> Any:
    request = messages.ModelInferRequest(model_name=model)
    for name, values in (("PROMPT_IDS", prompt), ("MAX_TOKENS", np.array([tokens], np.int32))):
        request.inputs.add(name=name, datatype="INT32", shape=values.shape)
        request.raw_input_contents.append(values.tobytes())
    return request
