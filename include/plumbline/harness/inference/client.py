"""The load client: an open loop over KServe v2 streaming gRPC.

Open loop: a request is sent when the schedule says so, however many are in flight, and its latency counts from that moment. A server that
falls behind thus shows its queue, and a client that falls behind shows as dispatch delay.

`drive` is the seam: whatever sends the load, it takes a phase's load and returns its log.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.pacing import Pacer
from plumbline.harness.inference.prompts import TokenIds
from plumbline.harness.inference.requestlog import ErrorClass, Request, RequestLog

try:
    import uvloop

    LOOP = f"uvloop {uvloop.__version__}"
    _new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:  # not on every platform; asyncio's own loop is slower and does the same
    LOOP, _new_loop = "asyncio", asyncio.new_event_loop

Tick = Callable[[int, int], None]
_TICK_S, _WATCH_S = 1.0, 0.1
_FINAL = "triton_final_response"
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # a channel of its own: phases never share a connection's state
    ("grpc.max_concurrent_streams", 100_000),
)
_ERRORS: dict[grpc.StatusCode, ErrorClass] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "timeout",
    grpc.StatusCode.CANCELLED: "cancelled",
    grpc.StatusCode.UNAVAILABLE: "unreachable",
}


@dataclass(frozen=True)
class Target:
    """Where the load goes. `running` says whether the server still lives: a dead one ends the phase at once."""

    address: str
    model: str
    running: Callable[[], bool]


def drive(load: PhaseLoad, prompts: Sequence[TokenIds], target: Target, *, timeout_s: float, tick: Tick | None = None) -> RequestLog:
    """Send one phase's load, wait for every answer or its timeout, and return what happened to each request.

    `timeout_s` counts from a request's scheduled time. `tick(ended, requests)` is called about once a second. Never raises for what the
    server does: that stands in the log.
    """
    log = RequestLog.of(load)
    bodies = [_body(target.model, i, prompt, r.output_tokens) for i, (prompt, r) in enumerate(zip(prompts, log.requests, strict=True))]
    # What was built until here lives through the phase: the collector need not walk over it in the middle of a measurement.
    gc.collect()
    gc.freeze()
    try:
        _run(_phase(log, bodies, target, timeout_s, tick))
    finally:
        gc.unfreeze()
    return log


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run on a loop of our own; an interrupt still ends what was started on it."""
    loop = _new_loop()
    task = loop.create_task(main)
    try:
        loop.run_until_complete(task)
    finally:
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()


def _body(model: str, number: int, prompt: TokenIds, output_tokens: int) -> messages.ModelInferRequest:
    request = messages.ModelInferRequest(model_name=model, id=str(number))
    for name, values in (("PROMPT_IDS", prompt), ("MAX_TOKENS", np.array([output_tokens], np.int32))):
        request.inputs.add(name=name, datatype="INT32", shape=values.shape)
        request.raw_input_contents.append(values.astype("<i4").tobytes())
    return request


async def _phase(log: RequestLog, bodies: list[messages.ModelInferRequest], target: Target, timeout_s: float, tick: Tick | None) -> None:
    """Send everything, unless the server ends first."""
    sending = asyncio.ensure_future(_send_all(log, bodies, target.address, timeout_s))
    watching = asyncio.ensure_future(_watch(log, target, tick))
    try:
        await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sending.cancel()
        watching.cancel()
        await asyncio.gather(sending, watching, return_exceptions=True)
    for task in (sending, watching):
        if not task.cancelled():
            task.result()  # an error of the client's own is not the server's and goes up


async def _watch(log: RequestLog, target: Target, tick: Tick | None) -> None:
    """Report progress; return when the server has ended."""
    told = time.monotonic()
    while target.running():
        await asyncio.sleep(_WATCH_S)
        if tick is not None and time.monotonic() - told >= _TICK_S:
            told = time.monotonic()
            tick(sum(r.ended == r.ended for r in log.requests), len(log.requests))
    # Streams that were open break by themselves; give them the time to say so.
    await asyncio.sleep(2 * _WATCH_S)


async def _send_all(log: RequestLog, bodies: list[messages.ModelInferRequest], address: str, timeout_s: float) -> None:
    tasks: list[asyncio.Task[None]] = []
    unsent = f"no connection to {address} within {timeout_s:g}s"
    try:
        async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
            await asyncio.wait_for(channel.channel_ready(), timeout_s)
            unsent = "the server had ended before it was due"
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            log.began = time.monotonic()
            try:
                with Pacer() as pacer:
                    for request, body in zip(log.requests, bodies, strict=True):
                        await _due(log.began + request.scheduled, pacer, len(tasks))
                        tasks.append(asyncio.ensure_future(_one(request, body, stub, log.began, timeout_s)))
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.TimeoutError:
        return
    finally:
        for request in log.requests:
            if request.dispatched != request.dispatched:
                request.fail("not_sent", unsent)


async def _due(moment: float, pacer: Pacer, sent: int) -> None:
    if time.monotonic() < moment:
        await pacer.until(moment)
    elif sent % 16 == 0:
        await asyncio.sleep(0)  # behind: answers must still be seen as they come


async def _one(request: Request, body: messages.ModelInferRequest, stub: Any, began: float, timeout_s: float) -> None:
    """Send one request and note its answer."""
    monotonic = time.monotonic
    request.dispatched = monotonic() - began
    remaining = timeout_s - (request.dispatched - request.scheduled)
    final = False
    try:
        call = stub.ModelStreamInfer(timeout=max(remaining, 1e-3))
        await call.write(body)
        await call.done_writing()
        async for message in call:
            now = monotonic() - began
            if message.error_message:
                request.fail("server_error", message.error_message)
            elif message.infer_response.outputs:
                request.tokens.append(now)
                if problem := _wrong(message.infer_response, request):
                    request.fail("wrong_output", problem)
            final = final or message.infer_response.parameters[_FINAL].bool_param
        if not final:
            request.fail("server_error", "the stream ended without a final response")
        elif len(request.tokens) != request.output_tokens:
            request.fail("wrong_output", f"{len(request.tokens)} tokens; expected {request.output_tokens}")
    except grpc.aio.AioRpcError as error:
        request.fail(_ERRORS.get(error.code(), "server_error"), f"{error.code().name}: {error.details()}")
    except asyncio.CancelledError:
        request.fail("cancelled", "the server ended")
        raise
    finally:
        request.ended = monotonic() - began


def _wrong(response: messages.ModelInferResponse, request: Request) -> str | None:
    """What is wrong with a token's tensors, in words; keeps the server's own times of the last one.

    Sizes are checked because a server can send tensors of the right shape and no bytes.
    """
    arrays: dict[str, bytes] = dict(zip((o.name for o in response.outputs), response.raw_output_contents, strict=False))
    wanted = {"TOKEN": 4, "INDEX": 4}
    if response.parameters[_FINAL].bool_param:
        wanted["SERVER_TIMES"] = 24
    for name, size in wanted.items():
        if len(arrays.get(name, b"")) != size:
            return f"token {len(request.tokens) - 1}: {len(arrays.get(name, b''))} bytes of {name}; expected {size}"
    index = int(np.frombuffer(arrays["INDEX"], "<i4")[0])
    if index != len(request.tokens) - 1:
        return f"token {len(request.tokens) - 1} has index {index}; a token was lost, doubled or overtaken"
    if "SERVER_TIMES" in wanted:
        request.queued_s, request.prefill_s, request.decode_s = np.frombuffer(arrays["SERVER_TIMES"], "<f8").tolist()
    return None
