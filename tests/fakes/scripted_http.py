"""An HTTP/1.1 server whose answers are written down: status, headers, and pieces of a body with the seconds to wait before each.

with Scripted([Answer([event(...), ...]), ...]) as server:
    ...                  # load server.url; answers are given in turn, the last one from then on
server.heads, server.bodies
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def event(data: Any) -> bytes:
    return b"data: " + (data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)).encode() + b"\n\n"


def said(text: str, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}, **more}]})


def counted(prompt: int, completion: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


DONE = event("[DONE]")
STREAM = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True)
class Answer:
    """`pieces`: bytes, each one chunk, or seconds to wait. `cut`: the connection is closed without the end of the body."""

    pieces: Sequence[bytes | float]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: STREAM)
    cut: bool = False


class Scripted:
    """`idle_s`: a request on a connection that was idle for so long meets its close, as if that had been under way."""

    def __init__(self, answers: Sequence[Answer], *, idle_s: float = 1e9) -> None:
        self._answers, self._idle_s = list(answers), idle_s
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.crossed = 0

    def __enter__(self) -> Scripted:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        last = time.monotonic()
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
                if time.monotonic() - last >= self._idle_s:
                    self.crossed += 1
                    return
                length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                self.heads.append(head)
                self.bodies.append(json.loads(body) if body else {})
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                writer.write(f"HTTP/1.1 {answer.status} Said\r\nTransfer-Encoding: chunked\r\n".encode())
                writer.write("".join(f"{name}: {value}\r\n" for name, value in answer.headers.items()).encode() + b"\r\n")
                for piece in answer.pieces:
                    if isinstance(piece, float):
                        await asyncio.sleep(piece)
                    else:
                        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        await writer.drain()
                if answer.cut:
                    return
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                last = time.monotonic()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client hung up
        finally:
            writer.close()
