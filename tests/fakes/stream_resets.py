"""A relay in front of a gRPC server that resets single streams on their way back, with no goodbye: what a broken proxy does to a client.

with Resets(golden.address, {118}) as relay:
    ...                  # load relay.address; request 118 gets its first response and then RST_STREAM
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Set

from tritonclient.grpc import service_pb2 as messages

_DATA, _RST_STREAM, _INTERNAL_ERROR = 0x0, 0x3, 2
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MESSAGE_HEAD = 5


class Resets:
    """`numbers`: requests (by id) whose stream is reset after the first frame of data."""

    def __init__(self, address: str, numbers: Set[int]) -> None:
        self._host, _, port = address.partition(":")
        self._port, self._numbers = int(port), numbers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Resets:
        self._thread.start()
        started = asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(started, self._loop).result()
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        doomed: set[int] = set()
        for way in (self._there(reader, server_writer, doomed), self._back(server_reader, writer, doomed)):
            task = asyncio.create_task(way)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: set[int]) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(await reader.readexactly(len(_PREFACE)))
            while True:
                kind, stream, frame = await _frame(reader)
                body = frame[9 + _MESSAGE_HEAD :]
                if kind == _DATA and body and int(messages.ModelInferRequest.FromString(body).id) in self._numbers:
                    doomed.add(stream)
                writer.write(frame)
        writer.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: set[int]) -> None:
        over: set[int] = set()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                kind, stream, frame = await _frame(reader)
                if stream in over:
                    continue
                writer.write(frame)
                if kind == _DATA and stream in doomed:
                    over.add(stream)
                    writer.write(struct.pack(">BHBBII", 0, 4, _RST_STREAM, 0, stream, _INTERNAL_ERROR))
        writer.close()


async def _frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Type, stream and all bytes of the next frame."""
    head = await reader.readexactly(9)
    return head[3], int.from_bytes(head[5:], "big"), head + await reader.readexactly(int.from_bytes(head[:3], "big"))
