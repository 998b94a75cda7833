"""OpenCost's allocation API on loopback: it adds up what it was given, by namespace and by one label, as the real one does.

    with FakeOpencost([Pod("plumbline", {"plumbline/provider": "eks-p5"}, cost=110.0, gpu_hours=16.0)]) as opencost:
        OpencostSource(kind="opencost", url=opencost.url)

`names_labels`: answers as older versions do, `namespace/label=value`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.http_fake import HttpFake


@dataclass(frozen=True)
class Pod:
    namespace: str
    labels: dict[str, str]
    cost: float
    gpu_hours: float
    core_hours: float = 0.0


@dataclass
class FakeOpencost(HttpFake):
    pods: list[Pod]
    names_labels: bool = False
    answer: tuple[int, str] | None = None
    """A status and a body that every request gets instead."""
    asked: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self) -> FakeOpencost:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                words = {name: values[0] for name, values in parse_qs(url.query).items()}
                fake.asked.append(words)
                status, body = fake.answer or fake._allocation(url.path, words)
                self.send_response(status)
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: object) -> None:
                """Quiet: `asked` is the log."""

        self._listen(Handler)
        return self

    @property
    def url(self) -> str:
        return self.origin

    def _allocation(self, path: str, words: dict[str, str]) -> tuple[int, str]:
        if path != "/allocation":
            return 404, "404 page not found\n"
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", words.get("window", "")):
            return 400, f"Invalid 'window' parameter: {words.get('window')}"
        by = words.get("aggregate", "").split(",")
        rows: dict[str, dict[str, Any]] = {}
        for pod in self.pods:
            name = "/".join(self._key(part, pod) for part in by)
            row = rows.setdefault(name, {"name": name, "totalCost": 0.0, "gpuHours": 0.0, "cpuCoreHours": 0.0})
            row["totalCost"] += pod.cost
            row["gpuHours"] += pod.gpu_hours
            row["cpuCoreHours"] += pod.core_hours
        return 200, json.dumps({"code": 200, "status": "success", "data": [rows]})

    def _key(self, part: str, pod: Pod) -> str:
        if part == "namespace":
            return pod.namespace
        wanted = part.removeprefix("label:")
        value = next((v for k, v in pod.labels.items() if re.sub(r"[^A-Za-z0-9]", "_", k) == wanted), None)
        return "__unallocated__" if value is None else f"{wanted}={value}" if self.names_labels else value
