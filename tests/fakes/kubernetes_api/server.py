"""The HTTP side of the fake: connections, and faults on demand."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.kubernetes_api.answers import answer
from tests.fakes.kubernetes_api.asked import Asked, Fault
from tests.fakes.kubernetes_api.logs import LogStream
from tests.fakes.kubernetes_api.refusals import REASONS, Refused

if TYPE_CHECKING:
    from tests.fakes.fake_kubernetes import FakeKubernetes


class Listener(ThreadingHTTPServer):
    """A server whose open connections can be cut."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, fake: FakeKubernetes, port: int) -> None:
        self.sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _handler(fake))

    def process_request(self, request: Any, client_address: Any) -> None:
        self.sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.sockets.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for held in list(self.sockets):
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or that was cut off, is nobody's error."""


def _handler(fake: FakeKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two writes: without this each answer waits for an ACK

        def _any(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
            asked = Asked(self.command, unquote(parts.path), query, json.loads(raw) if raw else None, self.headers.get("Accept") or "")
            fake.pause(asked)
            fault = fake.fault_for(asked)
            try:
                if fault is not None and not fault.after_work:
                    self._refuse(asked, fault)
                    return
                found = answer(fake, asked, self.headers.get("Authorization"))
                if fault is not None:
                    self._refuse(asked, fault)
                elif isinstance(found, LogStream):
                    self._stream(asked, found)
                else:
                    self._send(asked, 201 if asked.method == "POST" else 200, found)
            except Refused as refused:
                self._send(asked, refused.code, refused.row)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _any

        def _refuse(self, asked: Asked, fault: Fault) -> None:
            if fault.cut:
                fake.note(asked, None)
                self.close_connection = True
                return
            if fault.retry_after is not None:
                asked.answer_headers["Retry-After"] = str(fault.retry_after)
            said = fault.message or f"the server answers {fault.code} on demand ({REASONS.get(fault.code, 'Unknown')})"
            # That a name is taken only the store says; on demand two writers meet.
            self._send(asked, fault.code, Refused(fault.code, said, "Conflict" if fault.code == 409 else None).row)

        def _send(self, asked: Asked, code: int, answer: Any) -> None:
            fake.note(asked, code)
            plain = isinstance(answer, str)
            data = answer.encode() if plain else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if plain else "application/json")
            self.send_header("Content-Length", str(len(data)))
            for key, value in asked.answer_headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, asked: Asked, log: LogStream) -> None:
            fake.note(asked, 200)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in log.pieces():
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + fake.clock_skew_s if timestamp is None else timestamp)

        def log_message(self, *args: object) -> None:
            """Quiet: `requests` is the log."""

    return Handler
