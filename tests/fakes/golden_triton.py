"""A KServe v2 gRPC server whose timing is known: it streams tokens at set delays, notes when it sent each, and fails on demand.

    with Golden(first_s=0.02, gap_s=0.005, faults={3: "error"}) as golden:
        ...                  # load golden.address
    golden.records           # what it really did, by request number

It runs as a process of its own, so that it shares no interpreter lock with the client under test; CLOCK_MONOTONIC is the same in both.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

Fault = Literal["error", "abort", "empty", "short", "shuffled", "unfinished", "hang", "drop", "mismatch"]
SERVER_TIMES = (0.0005, 0.001, 0.002, 0.003, 0.0002)
QUEUED_NS = 4_000_000


@dataclass
class Record:
    """What happened to one request: monotonic seconds at which it came and at which each token was handed to gRPC."""

    received: float
    input_tokens: int
    wanted: int
    sent: list[float] = field(default_factory=list)
    cancelled: bool = False


@dataclass(frozen=True)
class Plan:
    """`first_s` after a request comes its first token, `gap_s` after each the next. `per_token_s`: so much later for each token of the
    prompt. `at_once`: so many requests at a time, each in first_s, and the others wait: a capacity of exactly at_once / first_s; 0: all at once.
    `steps` (base_s, each_s): all present sequences, at most `at_once`, step together instead; a step of k takes base_s + k × each_s and gives each
    a token. `delays_s`: instead of first_s, by request number. `stall` (every_s, for_s), counted from the first request: from each multiple of
    every_s on nothing is sent for for_s. `die_after`: end the process, with no goodbye, once so many requests have come. `vector`: bytes of
    the unary answer. `port`: 0 is any."""

    first_s: float = 0.0
    delays_s: list[float] | None = None
    stall: tuple[float, float] | None = None
    vector: int = 64
    port: int = 0
    gap_s: float = 0.0
    per_token_s: float = 0.0
    at_once: int = 0
    steps: tuple[float, float] | None = None
    die_after: int | None = None
    faults: dict[int, Fault] = field(default_factory=dict)


class Batch:
    """Steps of all present sequences, by the clock: what a busy machine sleeps too long does not lower the capacity."""

    def __init__(self, base_s: float, each_s: float, slots: int) -> None:
        self.base_s, self.each_s, self.slots = base_s, each_s, slots
        self.waiting: deque[tuple[float, int, asyncio.Queue[float]]] = deque()
        self.running: asyncio.Task[None] | None = None

    def join(self, tokens: int) -> asyncio.Queue[float]:
        """The moments of a new sequence's tokens, monotonic seconds, as they come."""
        sequence: asyncio.Queue[float] = asyncio.Queue()
        self.waiting.append((time.monotonic(), tokens, sequence))
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._step())
        return sequence

    async def _step(self) -> None:
        now, present = self.waiting[0][0], list[tuple[int, asyncio.Queue[float]]]()
        while self.waiting or present:
            if not present:
                now = max(now, self.waiting[0][0])
            while self.waiting and len(present) < self.slots and self.waiting[0][0] <= now:
                _, tokens, sequence = self.waiting.popleft()
                present.append((tokens, sequence))
            now += self.base_s + self.each_s * len(present)
            await asyncio.sleep(max(0.0, now - time.monotonic()))
            for _, sequence in present:
                sequence.put_nowait(now)
            present = [(left - 1, sequence) for left, sequence in present if left > 1]


class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Carries out the plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.records, self.succeeded = plan, {}, 0
        self.records: dict[int, Record] = {}
        self.free = [0.0] * (plan.at_once if plan.steps is None else 0)
        self.batch = Batch(*plan.steps, plan.at_once) if plan.steps is not None else None
        self.began: float | None = None

    async def ServerReady(self, request: Any, context: Any) -> Any:
        return messages.ServerReadyResponse(ready=True)

    async def ModelReady(self, request: Any, context: Any) -> Any:
        return messages.ModelReadyResponse(ready=request.name == "golden")

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        return messages.ServerMetadataResponse(name="golden", version="1.2.3")

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:
        listed = [messages.RepositoryIndexResponse.ModelIndex(name=name, version="1", state="READY") for name in ("golden", "vector")]
        return messages.RepositoryIndexResponse(models=listed)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        """`golden` streams tokens; `vector` answers once."""
        if request.name not in ("golden", "vector"):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.name}' is not found")
        described = messages.ModelMetadataResponse(name=request.name, versions=["1"], platform="golden")
        inputs = {"golden": (("PROMPT_IDS", -1), ("MAX_TOKENS", 1)), "vector": (("IDS", 4),)}[request.name]
        outputs = {"golden": (("TOKEN", "INT32", 1),), "vector": (("VECTOR", "FP32", self.plan.vector // 4), ("SERVER_TIMES", "FP64", 5))}
        for name, size in inputs:
            described.inputs.add(name=name, datatype="INT32", shape=[size])
        for name, datatype, size in outputs[request.name]:
            described.outputs.add(name=name, datatype=datatype, shape=[size])
        return described

    async def ModelConfig(self, request: Any, context: Any) -> Any:
        config = messages.ModelConfigResponse().config
        config.name = request.name
        config.model_transaction_policy.decoupled = request.name == "golden"
        return messages.ModelConfigResponse(config=config)

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        one = messages.ModelStatistics(name="golden", version="1")
        one.inference_stats.success.count = self.succeeded
        one.inference_stats.queue.ns = QUEUED_NS * self.succeeded
        return messages.ModelStatisticsResponse(model_stats=[one])

    async def ModelStreamInfer(self, stream: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in stream:
            arrays = dict(zip((i.name for i in request.inputs), request.raw_input_contents, strict=True))
            wanted = int(np.frombuffer(arrays["MAX_TOKENS"], "<i4")[0])
            record = self._record(request, len(arrays.get("PROMPT_IDS", b"")) // 4, wanted)
            try:
                async for response in self._answer(request, record, context):
                    yield response
            except asyncio.CancelledError:
                record.cancelled = True
                raise

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        record = self._record(request, len(request.raw_input_contents[0]) // 4, 1)
        try:
            answers = [response async for response in self._answer(request, record, context)]
        except asyncio.CancelledError:
            record.cancelled = True
            raise
        if answers[0].error_message:
            await context.abort(grpc.StatusCode.INTERNAL, answers[0].error_message)
        response = messages.ModelInferResponse(model_name="golden")
        tensors = [("VECTOR", "FP32", bytes(self.plan.vector)), ("SERVER_TIMES", "FP64", np.array(SERVER_TIMES, "<f8").tobytes())]
        for name, datatype, data in tensors:
            response.outputs.add(name=name, datatype=datatype, shape=[len(data) // 4])
            response.raw_output_contents.append(b"" if self.plan.faults.get(int(request.id)) == "empty" else data)
        return response

    def _record(self, request: Any, input_tokens: int, wanted: int) -> Record:
        record = self.records[int(request.id)] = Record(time.monotonic(), input_tokens, wanted)
        self.began = self.began or record.received
        if self.plan.die_after is not None and len(self.records) > self.plan.die_after:
            signal.raise_signal(signal.SIGKILL)
        return record

    async def _until(self, due: float) -> None:
        """Sleep until monotonic second `due`, or until the stall that this falls into is over."""
        if self.plan.stall is not None:
            assert self.began is not None
            every, lasting = self.plan.stall
            into = (max(due, time.monotonic()) - self.began) % every
            if into < lasting and max(due, time.monotonic()) - self.began >= every:
                due = max(due, time.monotonic()) + lasting - into
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _answer(self, request: Any, record: Record, context: Any) -> AsyncIterator[Any]:
        fault = self.plan.faults.get(int(request.id))
        if fault == "abort":
            await context.abort(grpc.StatusCode.INTERNAL, "told to abort")
        if fault == "hang":
            await asyncio.sleep(3600)
        delays = self.plan.delays_s
        # By the clock, not by who wakes up when: what a busy machine sleeps too long does not lower the capacity.
        begins = max(record.received, self.free[0]) if self.free else time.monotonic()
        due = begins + (self.plan.first_s if delays is None else delays[int(request.id)])
        due += self.plan.per_token_s * record.input_tokens
        if self.free:
            heapq.heapreplace(self.free, due + self.plan.gap_s * (record.wanted - 1))
        sequence = self.batch.join(record.wanted) if self.batch is not None else None
        for i in range(record.wanted):
            if sequence is not None:
                due = await sequence.get()
            await self._until(due)
            due += self.plan.gap_s
            if fault == "drop" and i == record.wanted // 2:
                # As near as gRPC lets a server come to it; a stream that is really reset is the part of http2_server.py.
                await context.abort(grpc.StatusCode.UNAVAILABLE, "told to drop")
            if fault == "error" and i == record.wanted // 2:
                yield messages.ModelStreamInferResponse(error_message="told to fail", infer_response=_response(final=True))
                return
            final = i == record.wanted - 1 or (fault == "short" and i == record.wanted // 2)
            record.sent.append(time.monotonic())
            if final:
                # Before the answer is out: who has it may stop this server at once.
                self.succeeded += 1
            index = (i + 1) % record.wanted if fault == "shuffled" else i
            yield messages.ModelStreamInferResponse(infer_response=_token(index, final, record.input_tokens + (fault == "mismatch"), fault))
            if final:
                return


def _token(index: int, final: bool, input_tokens: int, fault: Fault | None) -> Any:
    response = _response(final=final and fault != "unfinished")
    tensors = [("TOKEN", "INT32", np.array([7], "<i4")), ("INDEX", "INT32", np.array([index], "<i4"))]
    if final:
        tensors.append(("SERVER_TIMES", "FP64", np.array(SERVER_TIMES, "<f8")))
        tensors.append(("INPUT_TOKENS", "INT32", np.array([input_tokens], "<i4")))
    for name, datatype, values in tensors:
        response.outputs.add(name=name, datatype=datatype, shape=values.shape)
        response.raw_output_contents.append(b"" if fault == "empty" else values.tobytes())
    return response


def _response(*, final: bool) -> Any:
    response = messages.ModelInferResponse(model_name="golden")
    response.parameters["triton_final_response"].bool_param = final
    return response


class Golden:
    """The server as a context manager; `address` and `records` as Triton's client would need them."""

    def __init__(self, **plan: Any) -> None:
        self.plan = Plan(**plan)
        self.records: dict[int, Record] = {}
        self.succeeded = 0

    def __enter__(self) -> Golden:
        command = [sys.executable, __file__, json.dumps(asdict(self.plan))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"]
        return self

    def running(self) -> bool:
        """Whether the process lives."""
        return self.process.poll() is None

    def __exit__(self, *_: object) -> None:
        # Its standard input's end is its signal to stop: that also ends it when a test is killed.
        output, _unused = self.process.communicate()
        if output:
            told = json.loads(output)
            self.succeeded = told["succeeded"]
            self.records = {int(number): Record(**record) for number, record in told["records"].items()}


async def _serve(plan: Plan) -> None:
    servicer, server = Servicer(plan), grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port(f"127.0.0.1:{plan.port}")
    await server.start()
    sys.stdout.write(json.dumps({"address": f"127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # Whoever was given up by a client that is gone is still to hear of it.
    await server.stop(5.0)
    records = {number: asdict(record) for number, record in servicer.records.items()}
    sys.stdout.write(json.dumps({"succeeded": servicer.succeeded, "records": records}))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["stall"] = given["stall"] and tuple(given["stall"])
    given["steps"] = given["steps"] and tuple(given["steps"])
    given["faults"] = {int(number): fault for number, fault in given["faults"].items()}
    asyncio.run(_serve(Plan(**given)))
