"""A server that several processes run together, with the standard library alone: a pod gets it as `python -c`.

    gang_engine.py --nnodes N --node-rank R --leader HOST:PORT [--port P --name NAME]

Rank 0 answers OpenAI's completions once every other rank has joined it. A rank that loses another one ends, as engines do. No word
is in braces: a declared command would replace it."""

import argparse
import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOST = 4
_GAP_S = 0.001


def _end(text: str) -> None:
    sys.stderr.write("error: " + text + "\n")
    sys.stderr.flush()
    os._exit(LOST)


def _await(members: socket.socket, missing: set[int]) -> None:
    while True:
        connection, _ = members.accept()
        threading.Thread(target=_hold, args=(connection, missing), daemon=True).start()


def _hold(connection: socket.socket, missing: set[int]) -> None:
    lines = connection.makefile()
    rank = int(lines.readline())
    missing.discard(rank)
    lines.readline()  # it sends nothing more: this is its end
    _end("lost rank " + str(rank))


def _handler(name: str, missing: set[int]) -> type:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/health":
                self._plain(503 if missing else 200, "")
            elif self.path == "/v1/models":
                self._plain(200, json.dumps({"data": [{"id": name}]}))
            elif self.path == "/version":
                self._plain(200, json.dumps({"version": "9.9.fake"}))
            else:
                self._plain(404, "")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            count = asked["max_tokens"]
            for number in range(count):
                time.sleep(_GAP_S)
                reason = "length" if number == count - 1 else None
                self._event(json.dumps({"choices": [{"index": 0, "text": " a", "finish_reason": reason}]}))
            read = len(asked["prompt"])
            usage = {"prompt_tokens": read, "completion_tokens": count, "total_tokens": read + count}
            self._event(json.dumps({"choices": [], "usage": usage}))
            self._event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")

        def _event(self, text: str) -> None:
            data = ("data: " + text + "\n\n").encode()
            self.wfile.write((hex(len(data))[2:] + "\r\n").encode() + data + b"\r\n")

        def _plain(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            return

    return Handler


def _lead(options: argparse.Namespace) -> None:
    host, port = options.leader.rsplit(":", 1)
    missing = set(range(1, options.nnodes))
    members = socket.create_server((host, int(port)))
    threading.Thread(target=_await, args=(members, missing), daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", options.port), _handler(options.name, missing)).serve_forever()


def _follow(options: argparse.Namespace) -> None:
    host, port = options.leader.rsplit(":", 1)
    while True:
        try:
            connection = socket.create_connection((host, int(port)))
            break
        except OSError:
            time.sleep(0.05)
    connection.sendall((str(options.node_rank) + "\n").encode())
    connection.recv(1)  # rank 0 sends nothing: this is its end
    _end("lost rank 0")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nnodes", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--leader", required=True)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", default="")
    given = parser.parse_args()
    if given.node_rank == 0:
        _lead(given)
    else:
        _follow(given)
