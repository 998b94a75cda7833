"""A server of OpenAI's completions that answers 20 requests a second, each a while after the other; it says every second how many came.

Run by `python -c` in a pod, by the standard library alone. The connection ends with the answer, so that a Service spreads requests."""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ONE_AT_A_TIME, SERVICE_S, BUSY_S = threading.Lock(), 0.05, float(os.environ.get("BUSY_S", 0.0))
came = 0


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        return

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        global came
        came += 1
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with ONE_AT_A_TIME:
            began = time.monotonic()
            while time.monotonic() - began < BUSY_S:
                pass
            time.sleep(SERVICE_S - BUSY_S)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        n, read = asked["max_tokens"], len(asked["prompt"])
        rows = [{"choices": [{"index": 0, "text": "a ", "finish_reason": "length" if i == n - 1 else None}]} for i in range(n)]
        rows.append({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": n, "total_tokens": read + n}})
        self.wfile.write("".join(f"data: {json.dumps(row)}\n\n" for row in rows).encode() + b"data: [DONE]\n\n")


def end(*_: object) -> None:
    """What is under way is finished: the Service sends nothing more by now."""
    threading.Timer(3.0, os._exit, [0]).start()


class Server(ThreadingHTTPServer):
    request_queue_size = 1024


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    server = Server(("", 8000), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        before = came
        time.sleep(1.0)
        sys.stdout.write(f"came {came - before}\n")
        sys.stdout.flush()
