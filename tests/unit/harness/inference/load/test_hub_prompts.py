"""Prompts of a dataset of the hub, against a server that answers as the hub does."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.declarations.workloads.test_prompts import SHAREGPT, lines

from plumbline.declarations.workloads.prompts import HubPrompts
from plumbline.declarations.workloads.text_file import UnusableFile
from plumbline.harness.inference.load.own_prompts import FetchFailed, selected_rows

REVISION = "0123456789abcdef0123456789abcdef01234567"
DATA = lines(SHAREGPT, SHAREGPT, SHAREGPT)
PATH = f"/datasets/org/chats/resolve/{REVISION}/data/train.jsonl"


class _Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self._answer(head=True)

    def do_GET(self) -> None:
        self._answer(head=False)

    def _answer(self, *, head: bool) -> None:
        found = self.path == PATH
        self.send_response(200 if found else 404)
        if found:
            self.send_header("ETag", f'"{hashlib.sha1(DATA).hexdigest()}"')
            self.send_header("X-Repo-Commit", REVISION)
        else:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", str(len(DATA) if found else 0))
        self.end_headers()
        if found and not head:
            self.wfile.write(DATA)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def declared(**changes: Any) -> HubPrompts:
    said = {"source": "hub", "id": "org/chats", "revision": REVISION, "path": "data/train.jsonl", "format": "sharegpt", "sample": 2}
    return HubPrompts.model_validate(said | changes)


def test_a_file_of_a_dataset_is_fetched_at_its_commit(tmp_path: Path, hub: str) -> None:
    rows = selected_rows(declared(sha256=hashlib.sha256(DATA).hexdigest()), tmp_path, hub)
    assert len(rows) == 2 and rows[0].turns == (1, 3)


def test_another_file_or_an_absent_one_is_refused(tmp_path: Path, hub: str) -> None:
    with pytest.raises(UnusableFile, match="SHA-256"):
        selected_rows(declared(sha256="0" * 64), tmp_path, hub)
    with pytest.raises(UnusableFile, match=r"^sample 4 "):
        selected_rows(declared(sample=4), tmp_path, hub)
    with pytest.raises(FetchFailed, match=r"^none\.jsonl of org/chats"):
        selected_rows(declared(path="none.jsonl"), tmp_path, hub)
