"""A KServe v2 gRPC server whose timing is known: it streams tokens at set delays, notes when it sent each, and fails on demand.

    with Golden(first_s=0.02, gap_s=0.005, faults={3: "error"}) as golden:
        ...                  # load golden.address
    golden.records           # what it really did, by request number

It runs as a process of its own, so that it shares no interpreter lock with the client under test; CLOCK_MONOTONIC is the same in both.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

Fault = Literal["error", "abort", "empty", "short", "shuffled", "unfinished", "hang"]
SERVER_TIMES = (0.001, 0.002, 0.003)
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
    """`first_s` after a request comes its first token, `gap_s` after each the next. `serial`: one request at a time, the others wait.
    `die_after`: end the process, with no goodbye, once so many requests have come."""

    first_s: float = 0.0
    gap_s: float = 0.0
    serial: bool = False
    die_after: int | None = None
    faults: dict[int, Fault] = field(default_factory=dict)


class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Carries out the plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.records, self.succeeded = plan, {}, 0
        self.records: dict[int, Record] = {}
        self.turn = asyncio.Lock()

    async def ServerReady(self, request: Any, context: Any) -> Any:
        return messages.ServerReadyResponse(ready=True)

    async def ModelReady(self, request: Any, context: Any) -> Any:
        return messages.ModelReadyResponse(ready=request.name == "golden")

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        return messages.ServerMetadataResponse(name="golden", version="1.2.3")

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        one = messages.ModelStatistics(name="golden", version="1")
        one.inference_stats.success.count = self.succeeded
        one.inference_stats.queue.ns = QUEUED_NS * self.succeeded
        return messages.ModelStatisticsResponse(model_stats=[one])

    async def ModelStreamInfer(self, stream: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in stream:
            arrays = dict(zip((i.name for i in request.inputs), request.raw_input_contents, strict=True))
            wanted = int(np.frombuffer(arrays["MAX_TOKENS"], "<i4")[0])
            record = Record(time.monotonic(), len(arrays["PROMPT_IDS"]) // 4, wanted)
            self.records[int(request.id)] = record
            if self.plan.die_after is not None and len(self.records) > self.plan.die_after:
                signal.raise_signal(signal.SIGKILL)
            try:
                async for response in self._answer(request, record, context):
                    yield response
            except asyncio.CancelledError:
                record.cancelled = True
                raise

    async def _answer(self, request: Any, record: Record, context: Any) -> AsyncIterator[Any]:
        fault = self.plan.faults.get(int(request.id))
        if fault == "abort":
            await context.abort(grpc.StatusCode.INTERNAL, "told to abort")
        if fault == "hang":
            await asyncio.sleep(3600)
        if self.plan.serial:
            await self.turn.acquire()
        try:
            due = time.monotonic() + self.plan.first_s
            for i in range(record.wanted):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += self.plan.gap_s
                if fault == "error" and i == record.wanted // 2:
                    yield messages.ModelStreamInferResponse(error_message="told to fail", infer_response=_response(final=True))
                    return
                final = i == record.wanted - 1 or (fault == "short" and i == record.wanted // 2)
                record.sent.append(time.monotonic())
                index = (i + 1) % record.wanted if fault == "shuffled" else i
                yield messages.ModelStreamInferResponse(
                    infer_response=_token(index, final, empty=fault == "empty", close=fault != "unfinished")
                )
                if final:
                    self.succeeded += 1
                    return
        finally:
            if self.plan.serial:
                self.turn.release()


def _token(index: int, final: bool, *, empty: bool, close: bool) -> Any:
    response = _response(final=final and close)
    tensors = [("TOKEN", "INT32", np.array([7], "<i4")), ("INDEX", "INT32", np.array([index], "<i4"))]
    if final:
        tensors.append(("SERVER_TIMES", "FP64", np.array(SERVER_TIMES, "<f8")))
    for name, datatype, values in tensors:
        response.outputs.add(name=name, datatype=datatype, shape=values.shape)
        response.raw_output_contents.append(b"" if empty else values.tobytes())
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
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(json.dumps({"address": f"127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)
    records = {number: asdict(record) for number, record in servicer.records.items()}
    sys.stdout.write(json.dumps({"succeeded": servicer.succeeded, "records": records}))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["faults"] = {int(number): fault for number, fault in given["faults"].items()}
    asyncio.run(_serve(Plan(**given)))
