"""A hosted model over HTTP/1.1 whose timing is known: OpenAI's completions as server-sent events, and KServe's infer and generate_stream.

    with Hosted(Plan(first_s=0.02, gap_s=0.005, faults={3: "cut"})) as hosted:
        ...                  # load hosted.url
    hosted.records           # what it really did, in the order in which requests came

It runs as a process of its own, so that it shares no interpreter lock with the client under test; CLOCK_MONOTONIC is the same in both.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

Fault = Literal[
    "cut",
    "early_cut",
    "short",
    "bad_json",
    "error_event",
    "hang",
    "close",
    "by_end",
    "no_done",
    "not_http",
    "limit_event",
    "abort",
    429,
    500,
    503,
]
_BROKEN = {
    "bad_json": "{this is no JSON",
    "error_event": '{"error": {"message": "out of memory"}}',
    "limit_event": '{"error": {"message": "slow down", "code": 429}}',
    "abort": '{"choices": [{"index": 0, "text": "", "delta": {}, "finish_reason": "abort"}]}',
}
SERVER_TIMES = [0.0005, 0.001, 0.002, 0.003, 0.0002]


@dataclass
class Record:
    """What happened to one request: monotonic seconds at which it came and at which each of its `tokens` was written."""

    received: float
    path: str
    asked: dict[str, Any]
    authorization: str | None
    connection: int
    sent: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """`first_s` after a request comes its first token, `gap_s` after each the next; `per_event` tokens come in one event.

    faults        by the number of the request, in the order in which they come
    status        every request is answered with it, and `says` in the body
    key           what must stand behind "Bearer "; else 401, which repeats what stood there
    usage         whether it counts tokens at the end of a stream
    lengths       by the number of the request, the tokens after which the model ends its answer by itself
    cached        tokens of each prompt that its cache had; None: it does not say
    retry_after   of refusals by status, the header of that name
    null_error    each event says that there is no error
    torn          each event is written in two halves, in two segments
    silent_tokens one of three events has an empty text, as of a token that is half a character
    vector        numbers in the answer of infer
    burst         requests within a quarter of a second that it holds; from the first more on, first tokens take `slow_s`, until it scales
    scales_s      after that moment; None: it never scales
    host          the address on which it listens
    """

    first_s: float = 0.0
    gap_s: float = 0.0
    per_event: int = 1
    faults: dict[int, Fault] = field(default_factory=dict)
    status: int | None = None
    says: str = "no"
    key: str | None = None
    usage: bool = True
    lengths: dict[int, int] = field(default_factory=dict)
    cached: int | None = None
    retry_after: str | None = None
    null_error: bool = False
    torn: bool = False
    silent_tokens: bool = False
    vector: int = 16
    certificate: str | None = None
    burst: int | None = None
    slow_s: float = 2.0
    scales_s: float | None = None
    host: str = "127.0.0.1"


class Hosted:
    """The server as a context manager. `url` has no path; `address` is host:port. `within`: goes before its command."""

    def __init__(self, plan: Plan = Plan(), within: Sequence[str] = ()) -> None:
        self.plan, self.records, self._within = plan, list[Record](), within

    def __enter__(self) -> Hosted:
        self._process = subprocess.Popen(
            [*self._within, sys.executable, "-m", "tests.fakes.openai_server", json.dumps(asdict(self.plan))],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        self.address = f"localhost:{port}" if self.plan.certificate else f"{self.plan.host}:{port}"
        self.url = f"{'https' if self.plan.certificate else 'http'}://{self.address}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate(timeout=20)
        self.records = [Record(**record) for record in json.loads(out)]


class Server:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.records, self.connections = plan, list[Record](), 0
        self.recent, self.rose = list[float](), float("inf")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while await self._one(reader, writer, connection):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client hung up
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        """One request; whether the connection is kept."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "GET":
            return self._get(writer, path)
        json_bytes = int(headers.get("inference-header-content-length", len(body)))
        authorization = headers.get("authorization")
        record = Record(time.monotonic(), path, json.loads(body[:json_bytes]), authorization, connection)
        self.records.append(record)
        if self.plan.key is not None and authorization != f"Bearer {self.plan.key}":
            return self._plain(writer, 401, f"Incorrect API key provided: {authorization}")
        if self.plan.status is not None:
            return self._plain(writer, self.plan.status, self.plan.says)
        fault = self.plan.faults.get(len(self.records) - 1)
        if isinstance(fault, int):
            return self._plain(writer, fault, self.plan.says)
        if fault == "early_cut":
            writer.transport.abort()
            return False
        if fault == "not_http":
            writer.write(b"SSH-2.0-dropbear\r\n")
            return False
        if self._overloaded(record.received):
            await asyncio.sleep(self.plan.slow_s)
        if path.endswith("/infer"):
            await asyncio.sleep(self.plan.first_s)
            record.sent.append(time.monotonic())
            return self._infer(writer, short=fault == "short")
        if "max_tokens" in record.asked and not record.asked.get("stream"):
            return self._whole(writer, record)
        return await self._stream(writer, record, fault, self.plan.lengths.get(len(self.records) - 1))

    def _overloaded(self, now: float) -> bool:
        self.recent = [at for at in (*self.recent, now) if at > now - 0.25]
        if self.plan.burst is not None and len(self.recent) > self.plan.burst:
            self.rose = min(self.rose, now)
        return self.rose <= now and (self.plan.scales_s is None or now < self.rose + self.plan.scales_s)

    def _get(self, writer: asyncio.StreamWriter, path: str) -> bool:
        about = {"/v2": {"name": "hosted", "version": "1.2.3"}, "/v2/health/live": {}, "/v1/models": {"data": []}}
        found = about.get(path)
        return self._plain(writer, 404 if found is None else 200, json.dumps(found))

    def _plain(self, writer: asyncio.StreamWriter, status: int, text: str) -> bool:
        more = "Location: https://elsewhere.example.com/v1\r\n" if 300 <= status < 400 else ""
        if status in (429, 503) and self.plan.retry_after is not None:
            more += f"Retry-After: {self.plan.retry_after}\r\n"
        writer.write(f"HTTP/1.1 {status} Said\r\nServer: hosted/1.2.3\r\n{more}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        return True

    def _infer(self, writer: asyncio.StreamWriter, *, short: bool) -> bool:
        vector = np.arange(self.plan.vector - short, dtype="<f4").tobytes()
        output = {"name": "VECTOR", "datatype": "FP32", "shape": [len(vector) // 4], "parameters": {"binary_data_size": len(vector)}}
        header = json.dumps({"model_name": "m", "outputs": [output]}).encode()
        lengths = f"Inference-Header-Content-Length: {len(header)}\r\nContent-Length: {len(header) + len(vector)}"
        writer.write(f"HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n".encode() + header + vector)
        return True

    def _whole(self, writer: asyncio.StreamWriter, record: Record) -> bool:
        """An answer that is not streamed, of one token."""
        chat = record.path.endswith("/chat/completions")
        choice = {"index": 0, "message": {"content": "word"}} if chat else {"index": 0, "text": "word"}
        usage = {"usage": self._usage(record.asked, 1)} if self.plan.usage else {}
        return self._plain(writer, 200, json.dumps({"choices": [choice], **usage}))

    def _usage(self, asked: dict[str, Any], written: int) -> dict[str, Any]:
        prompt = asked.get("prompt")
        counted = len(prompt) if isinstance(prompt, list) else 11
        cached = {} if self.plan.cached is None else {"prompt_tokens_details": {"cached_tokens": self.plan.cached}}
        return {"prompt_tokens": counted, "completion_tokens": written, **cached}

    async def _stream(self, writer: asyncio.StreamWriter, record: Record, fault: Fault | None, ends_after: int | None) -> bool:
        asked, openai = record.asked, not record.path.endswith("/generate_stream")
        chat = record.path.endswith("/chat/completions")
        wanted = int(asked["max_tokens"] if openai else asked["MAX_TOKENS"]) - (fault == "short")
        wanted = wanted if ends_after is None else min(wanted, ends_after)
        by_end, close = fault == "by_end", fault in ("by_end", "close")
        framing = ("" if by_end else "Transfer-Encoding: chunked\r\n") + ("Connection: close\r\n" if close else "")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n".encode())

        async def event(data: str) -> None:
            raw = f"data: {data}\r\n\r\n".encode()
            for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :]) if self.plan.torn else (raw,):
                writer.write(part if by_end else b"%x\r\n%s\r\n" % (len(part), part))
                await writer.drain()
                if self.plan.torn:
                    await asyncio.sleep(0.002)

        if chat:
            await event(json.dumps({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
        began, written = record.received, 0
        while written < wanted:
            n = min(self.plan.per_event, wanted - written)
            await asyncio.sleep(max(0.0, began + self.plan.first_s + written * self.plan.gap_s - time.monotonic()))
            if written >= wanted // 2 and fault in ("cut", "hang", "bad_json", "error_event", "limit_event", "abort"):
                if fault == "cut":
                    writer.transport.abort()
                    return False
                if fault == "hang":
                    await asyncio.sleep(3600)
                await event(_BROKEN[fault])
            record.sent += [time.monotonic()] * n
            if openai:
                text = "" if self.plan.silent_tokens and written % 3 == 1 else " word" * n
                choice = {"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}
                await event(json.dumps({"choices": [choice], **({"error": None} if self.plan.null_error else {})}))
            else:
                last = {"SERVER_TIMES": SERVER_TIMES} if written + n == wanted else {}
                await event(json.dumps({"model_name": "m", "TOKEN": 7, "INDEX": written, **last}))
            written += n
        if openai:
            if self.plan.usage:
                await event(json.dumps({"choices": [], "usage": self._usage(asked, wanted)}))
            if fault != "no_done":
                await event("[DONE]")
        if not by_end:
            writer.write(b"0\r\n\r\n")
        return not close


async def _main(plan: Plan) -> None:
    server = Server(plan)
    tls = None
    if plan.certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(plan.certificate)
    listening = await asyncio.start_server(server.serve, server.plan.host, 0, ssl=tls, backlog=1024)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sys.stdout.write(f"{listening.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await stop.wait()
    sys.stdout.write(json.dumps([asdict(record) for record in server.records]))
    sys.stdout.flush()
    listening.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    asyncio.run(
        _main(Plan(**{**given, **{name: {int(number): value for number, value in given[name].items()} for name in ("faults", "lengths")}}))
    )
