"""A KServe v2 server that does nothing but answer, `python perf/load_echo.py`: the second server of `make perf-load`, so that no client meets a server's limit.

One process on one core: HTTP/2 frames are answered as they come, headers that were seen are not decoded again, and an answer is made of ready bytes
around the request's id. Its address is the first line on standard output; it ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import hpack
import uvloop
from tritonclient.grpc import service_pb2 as messages

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from plumbline.loadclient import http2

MODEL, VALUES = "noop", 16
_NAMED = messages.ModelInferResponse(model_name=MODEL, model_version="1").SerializeToString()
_ANSWER = messages.ModelInferResponse()
_ANSWER.outputs.add(name="OUT", datatype="FP32", shape=[1, VALUES])
_ANSWER.raw_output_contents.append(bytes(4 * VALUES))
_TENSORS = _ANSWER.SerializeToString()
_ENCODER = hpack.Encoder()
_HEAD = _ENCODER.encode([hpack.NeverIndexedHeaderTuple(*pair) for pair in ((":status", "200"), ("content-type", "application/grpc"))])
_TAIL = _ENCODER.encode([hpack.NeverIndexedHeaderTuple("grpc-status", "0")])
_CREDIT = 1 << 20
_served = 0


def _described() -> dict[str, Any]:
    metadata = messages.ModelMetadataResponse(name=MODEL, versions=["1"], platform="echo")
    metadata.inputs.add(name="IN", datatype="FP32", shape=[-1, VALUES])
    metadata.outputs.add(name="OUT", datatype="FP32", shape=[-1, VALUES])
    config = messages.ModelConfigResponse()
    config.config.name, config.config.max_batch_size = MODEL, 64
    for tensors, name in ((config.config.input, "IN"), (config.config.output, "OUT")):
        tensors.add(name=name, data_type="TYPE_FP32", dims=[VALUES])
    return {
        "RepositoryIndex": messages.RepositoryIndexResponse(
            models=[messages.RepositoryIndexResponse.ModelIndex(name=MODEL, version="1", state="READY")]
        ),
        "ServerLive": messages.ServerLiveResponse(live=True),
        "ServerReady": messages.ServerReadyResponse(ready=True),
        "ModelReady": messages.ModelReadyResponse(ready=True),
        "ServerMetadata": messages.ServerMetadataResponse(name="echo", version="1", extensions=["statistics"]),
        "ModelMetadata": metadata,
        "ModelConfig": config,
    }


_DESCRIBED = {name: message.SerializeToString() for name, message in _described().items()}


def _statistics() -> bytes:
    one = messages.ModelStatistics(name=MODEL, version="1", inference_count=_served, execution_count=_served)
    one.inference_stats.success.count = _served
    return bytes(messages.ModelStatisticsResponse(model_stats=[one]).SerializeToString())


class Echo(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._rest, self._begun, self._taken = b"", False, 0
        self._decoder = hpack.Decoder()
        self._methods: dict[bytes, str] = {}
        self._calls: dict[int, tuple[str, bytearray]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        ours = {http2.HEADER_TABLE_SIZE: 0, http2.MAX_CONCURRENT_STREAMS: 1 << 20, http2.INITIAL_WINDOW_SIZE: http2.LARGEST_WINDOW}
        credit = http2.frame(http2.WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4, "big"))
        self._transport.write(http2.settings(ours) + credit)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        position, out = 0, bytearray()
        if not self._begun:
            if len(data) < len(http2.PREFACE):
                self._rest = data
                return
            self._begun, position = True, len(http2.PREFACE)
        while len(data) - position >= 9:
            high, low, kind, flags, stream = http2.unpack_head(data, position)
            end = position + 9 + (high << 8 | low)
            if end > len(data):
                break
            self._frame(kind, flags, stream, data[position + 9 : end], out)
            position = end
        self._rest = data[position:]
        if self._taken > _CREDIT:
            out += http2.frame(http2.WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4, "big"))
            self._taken = 0
        self._transport.write(bytes(out))

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes, out: bytearray) -> None:
        if kind == http2.HEADERS:
            block = http2.without_padding(flags, payload)
            method = self._methods.get(block)
            if method is None:
                headers: dict[Any, Any] = dict(self._decoder.decode(block))
                method = str(headers[":path"]).rpartition("/")[2]
                if not self._decoder.header_table_size:  # what a client sends before it has our settings changes its table
                    self._methods[block] = method
            self._calls[stream] = method, bytearray()
        elif kind == http2.DATA:
            self._taken += len(payload)
            method, message = self._calls[stream]
            message += http2.without_padding(flags, payload)
            if flags & http2.END_STREAM:
                del self._calls[stream]
                self._answer(stream, method, bytes(message[5:]), out)
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            out += http2.frame(http2.SETTINGS, http2.ACK, 0)
        elif kind == http2.PING and not flags & http2.ACK:
            out += http2.frame(http2.PING, http2.ACK, 0, payload)
        elif kind == http2.RST_STREAM:
            self._calls.pop(stream, None)

    def _answer(self, stream: int, method: str, message: bytes, out: bytearray) -> None:
        global _served
        if method == "ModelInfer":
            _served += 1
            number = messages.ModelInferRequest.FromString(message).id.encode()
            # In the order of the fields, as Triton has them.
            body = _NAMED + (b"\x1a" + bytes((len(number),)) + number if number else b"") + _TENSORS
        else:
            body = _statistics() if method == "ModelStatistics" else _DESCRIBED[method]
        out += http2.frame(http2.HEADERS, http2.END_HEADERS, stream, _HEAD)
        out += http2.frame(http2.DATA, 0, stream, b"\0" + len(body).to_bytes(4, "big") + body)
        out += http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, _TAIL)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    sys.stdout.write(f"127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve())
