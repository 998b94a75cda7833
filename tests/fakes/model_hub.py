"""A Hugging Face hub on loopback: the parts of its API by which a revision of a model or data set is listed and downloaded, gated or open."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

REVISION = "0123456789abcdef0123456789abcdef01234567"
_LARGE = 4096  # bytes; above, a file is in large-file storage, whose SHA-256 the hub lists


@dataclass
class Hub:
    """`models`: folders by id, also of data sets. `token`: asked for by every model, which is then gated. `cut`: bytes after which the next download of a file
    breaks off, once. `served`: bytes of files by name. `replaced`: content that is served in place of a file's own."""

    models: Mapping[str, Path]
    token: str | None = None
    url: str = ""
    cut: dict[str, int] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)
    replaced: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)


@contextmanager
def model_hub(models: Mapping[str, Path], token: str | None = None) -> Iterator[Hub]:
    hub = Hub(models, token)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(head=True)

    def do_GET(self) -> None:
        self._answer(head=False)

    def _answer(self, *, head: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        parts = parts[1:] if parts[0] == "datasets" else parts
        model = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        folder = self.hub.models.get(model)
        if folder is None:
            return self._error(404, "RepoNotFound")
        if self.hub.token is not None and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._error(401, "GatedRepo")
        if parts[0] == "api":
            asked = parts[5] if len(parts) > 5 else "main"
            if asked not in (REVISION, "main"):
                return self._error(404, "RevisionNotFound")
            files = folder.rglob("*") if "recursive=true" in self.path.lower() else folder.iterdir()
            listing: object = [_row(file, folder) for file in sorted(files) if file.is_file()]
            if parts[4:5] != ["tree"]:
                listing = {"id": model, "sha": REVISION, "siblings": []}
            return self._send(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})
        if parts[3] not in (REVISION, "main"):
            return self._error(404, "RevisionNotFound")
        file = folder.joinpath(*parts[4:])
        if not file.is_file():
            return self._error(404, "EntryNotFound")
        self._file(file, head=head)
        return None

    def _file(self, file: Path, *, head: bool) -> None:
        data = self.hub.replaced.get(file.name, file.read_bytes())
        headers = {"ETag": f'"{_etag(file)}"', "X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"}
        if head:
            return self._send(200, b"", {**headers, "Content-Length": str(len(data))})
        start, last = 0, len(data) - 1
        if (asked := self.headers.get("Range")) is not None:
            first, _, end = asked.removeprefix("bytes=").partition("-")
            start, last = int(first), min(int(end or last), last)
            headers["Content-Range"] = f"bytes {start}-{last}/{len(data)}"
        body = data[start : last + 1]
        length = len(body)
        if (cut := self.hub.cut.pop(file.name, None)) is not None:
            body = body[:cut]
            self.close_connection = True
        self.hub.served[file.name] = self.hub.served.get(file.name, 0) + len(body)
        self._send(206 if asked else 200, body, {**headers, "Content-Length": str(length)})
        return None

    def _error(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the tests' output quiet."""


def _etag(file: Path) -> str:
    data = file.read_bytes()
    return hashlib.sha256(data).hexdigest() if len(data) > _LARGE else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _row(file: Path, folder: Path) -> dict[str, object]:
    size = file.stat().st_size
    lfs = {"lfs": {"oid": _etag(file), "size": size, "pointerSize": 130}} if size > _LARGE else {}
    return {
        "type": "file",
        "path": file.relative_to(folder).as_posix(),
        "size": size,
        "oid": hashlib.sha1(file.read_bytes()).hexdigest(),
        **lfs,
    }
