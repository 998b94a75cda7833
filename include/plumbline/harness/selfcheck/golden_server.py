"""A KServe v2 server that answers after set delays and notes when it did: `python -m plumbline.harness.selfcheck.golden_server FIRST_S GAP_S`.

A process of its own, so that it shares no interpreter lock with the client that is checked; CLOCK_MONOTONIC is the same in both. Its address
is the first line on standard output; when standard input ends, the moments (monotonic s) of each request's tokens follow as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc


class _Golden(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    def __init__(self, first_s: float, gap_s: float) -> None:
        self.first_s, self.gap_s = first_s, gap_s
        self.sent: dict[int, list[float]] = {}

    async def ModelStreamInfer(self, stream: AsyncIterator[Any], _context: Any) -> AsyncIterator[Any]:
        async for request in stream:
            arrays = dict(zip((tensor.name for tensor in request.inputs), request.raw_input_contents, strict=True))
            max_tokens = int(np.frombuffer(arrays["MAX_TOKENS"], "<i4")[0])
            moments = self.sent[int(request.id)] = []
            due = time.monotonic() + self.first_s
            for index in range(max_tokens):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += self.gap_s
                moments.append(time.monotonic())
                yield messages.ModelStreamInferResponse(infer_response=_token(index, final=index == max_tokens - 1))


def _token(index: int, *, final: bool) -> Any:
    response = messages.ModelInferResponse(model_name="golden")
    response.parameters["triton_final_response"].bool_param = final
    for name, value in (("TOKEN", 7), ("INDEX", index)):
        response.outputs.add(name=name, datatype="INT32", shape=[1])
        response.raw_output_contents.append(np.array([value], "<i4").tobytes())
    return response


async def _serve(first_s: float, gap_s: float) -> None:
    golden, server = _Golden(first_s, gap_s), grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(golden, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"127.0.0.1:{port}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)
    json.dump(golden.sent, sys.stdout)


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), float(sys.argv[2])))
