"""The same requests through this client and through tritonclient's own: whether the same comes back, and in what time.

tritonclient makes its requests from the tensors' values and reads answers by protobuf, this client does both by itself: a mistake in either
shows as another answer.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor

from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import Values
from plumbline.loadclient.transport import Outputs, Settings, Target
from plumbline.loadclient.wire import CACHED_TOKENS, SERVER_TIMES, Tensor, Wire

_RELATIVE, _ABSOLUTE = 1e-3, 1e-5
"""Floats of one request may differ by so much between two batches."""
_FINAL = "triton_final_response"
_QUOTED = 60
"""Characters of values that differ."""


@dataclass(frozen=True)
class CrossCheck:
    """The comparison of `n` requests. `differ`: request number → tensor in which the answers differ; `ours_s` and `peers_s`: seconds from the sending of each
    of the others to its last response."""

    n: int
    differ: Mapping[int, str]
    ours_s: Values
    peers_s: Values


def cross_check(
    requests: Sequence[Sequence[Tensor]],
    target: Target,
    input_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    *,
    within_s: float,
    timeout_s: float,
    settings: Settings = Settings(),  # noqa: B008 - frozen
) -> CrossCheck:
    """Send `requests` of so many tokens [requests] one after the other, by this client, none after `within_s`, then the same by tritonclient.

    Over gRPC without TLS, and to the first server only. Never raises for the server's behaviour."""
    n, wire, outputs = len(requests), target.wire, Outputs()
    load = PhaseLoad("steady", within_s, np.zeros(n), input_tokens, output_tokens, np.arange(-1, n - 1, dtype=np.int32), closed=True)
    deadline = time.monotonic() + within_s
    bodies = [wire.body(number, tensors) for number, tensors in enumerate(requests)]
    alone = replace(target, replicas=(), outputs=outputs)
    log = drive(
        load, bodies, alone, timeout_s=timeout_s, stop=lambda _: time.monotonic() > deadline, settings=replace(settings, processes=1)
    )
    sent = np.flatnonzero(log.due).tolist()
    differ, ours, peers = dict[int, str](), list[float](), list[float]()
    with InferenceServerClient(target.address) as peer:
        answers = _Peer(peer, wire, timeout_s)
        for number in sent:
            try:
                seconds, theirs = answers.to(number, requests[number])
                difference = _difference(wire, outputs.get(number, {}), theirs) if log.ok[number] else log.details.get(number, "no answer")
            except (InferenceServerException, queue.Empty) as error:
                difference = f"tritonclient: {type(error).__name__}: {error}"
            if difference:
                differ[number] = difference
            else:
                ours.append(float(log.last_token[number] - log.dispatched[number]))
                peers.append(seconds)
    return CrossCheck(len(sent), differ, np.array(ours), np.array(peers))


class _Peer:
    """tritonclient, asked for one answer at a time. Raises InferenceServerException, and queue.Empty after the time limit."""

    def __init__(self, client: Any, wire: Wire, timeout_s: float) -> None:
        self._client, self._wire, self._timeout_s = client, wire, timeout_s
        self._came: queue.SimpleQueue[tuple[float, Any, Exception | None]] = queue.SimpleQueue()

    def to(self, number: int, tensors: Sequence[Tensor]) -> tuple[float, dict[str, list[NDArray[Any]]]]:
        """Seconds to the last response, and of each output the values [n] of each response."""
        inputs = [InferInput(each.name, list(each.values.shape), each.datatype) for each in tensors]
        for made, each in zip(inputs, tensors, strict=True):
            made.set_data_from_numpy(each.values)
        began = time.monotonic()
        if self._wire.method == "unary":
            result = self._client.infer(self._wire.model, inputs, request_id=str(number), client_timeout=self._timeout_s)
            return time.monotonic() - began, {
                output.name: [result.as_numpy(output.name).ravel()] for output in result.get_response().outputs
            }
        # A stream for each request, as ours has: to open one is work of the server.
        self._client.start_stream(lambda result, error: self._came.put((time.monotonic(), result, error)))
        try:
            self._client.async_stream_infer(self._wire.model, inputs, request_id=str(number))
            return self._streamed(began)
        finally:
            self._client.stop_stream()

    def _streamed(self, began: float) -> tuple[float, dict[str, list[NDArray[Any]]]]:
        parts = dict[str, list[NDArray[Any]]]()
        while True:
            at, result, error = self._came.get(timeout=self._timeout_s)
            if error is not None:
                raise error
            response = result.get_response()
            for output in response.outputs:
                parts.setdefault(output.name, []).append(result.as_numpy(output.name).ravel())
            if _FINAL in response.parameters and response.parameters[_FINAL].bool_param:
                return at - began, parts


def _difference(wire: Wire, ours: Mapping[str, Sequence[bytes]], theirs: Mapping[str, Sequence[NDArray[Any]]]) -> str:
    """The first tensor that differs, and how; empty if none does. Times, cache hits and the tokens of each response may; of what the last
    response must carry, only that one counts."""
    for name in sorted({*wire.responses, *wire.last} - {SERVER_TIMES, CACHED_TOKENS, wire.tokens}):
        since = -1 if name in wire.last else 0
        parts, expected = ours.get(name, ())[since:], np.concatenate(theirs.get(name, [np.empty(0)])[since:])
        if expected.dtype == np.object_:
            # A response may bring several tokens: only the text of all is the same each time.
            expected = np.array(b"".join(expected))
            values: NDArray[Any] = np.array(b"".join(b"".join(deserialize_bytes_tensor(part)) for part in parts))
        else:
            values = np.frombuffer(b"".join(parts), expected.dtype)
        floats = np.issubdtype(expected.dtype, np.floating)
        if values.shape != expected.shape or not (
            np.allclose(values, expected, _RELATIVE, _ABSOLUTE) if floats else np.array_equal(values, expected)
        ):
            return f"{name} is {str(values.tolist())[:_QUOTED]}, by tritonclient {str(expected.tolist())[:_QUOTED]}"
    return ""
