"""A gpuhunt catalog of a test's own: as a folder of CSV files, and as the HTTP server that the package downloads it from.

write_catalog(folder, aws=[offer("p5.48xlarge", "us-east-1", 55.04)])
with CatalogServer({"aws": [offer(…)]}, version="20261121-1") as server:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", server.url)
"""

from __future__ import annotations

import csv
import io
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.fakes.http_fake import HttpFake

_FIELDS = "instance_name location price cpu memory gpu_count gpu_name gpu_memory spot disk_size gpu_vendor flags cpu_arch provider_data"
OFFLINE = ("aws", "azure", "verda", "gcp", "lambdalabs", "nebius", "oci", "runpod", "cloudrift")

Offer = dict[str, str]


def offer(instance: str, location: str, price: float, *, gpus: int = 8, spot: bool = False, flags: str = "") -> Offer:
    """One row of a cloud's catalog: USD per hour of the whole instance."""
    told = {"instance_name": instance, "location": location, "price": str(price), "cpu": "192", "memory": "2048.0", "gpu_count": str(gpus)}
    gpu = {"gpu_name": "H100", "gpu_memory": "80.0", "gpu_vendor": "nvidia"} if gpus else {}
    return told | gpu | {"spot": str(spot), "flags": flags, "cpu_arch": "x86", "provider_data": "{}"}


def _csv(offers: list[Offer]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _FIELDS.split(), restval="")
    writer.writeheader()
    writer.writerows(offers)
    return text.getvalue()


def write_catalog(folder: Path, **clouds: list[Offer]) -> Path:
    """The folder that GPUHUNT_CATALOG_DIR can name."""
    folder.mkdir(parents=True, exist_ok=True)
    for cloud, offers in clouds.items():
        (folder / f"{cloud}.csv").write_text(_csv(offers), encoding="utf-8")
    return folder


class CatalogServer(HttpFake):
    """Answers `/<cloud>/version` and `/<cloud>/<version>/catalog.zip`; clouds without offers have an empty file."""

    def __init__(self, clouds: dict[str, list[Offer]], version: str) -> None:
        self.version, self.asked = version, list[str]()
        self._zips = {cloud: self._zip(cloud, clouds.get(cloud, [])) for cloud in OFFLINE}

    @staticmethod
    def _zip(cloud: str, offers: list[Offer]) -> bytes:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as file:
            file.writestr(f"{cloud}.csv", _csv(offers))
        return data.getvalue()

    def __enter__(self) -> CatalogServer:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.asked.append(self.path)
                cloud, _, rest = self.path.strip("/").partition("/")
                answers = {"version": fake.version.encode(), f"{fake.version}/catalog.zip": fake._zips.get(cloud, b"")}
                body = answers.get(rest)
                self.send_response(200 if body else 404)
                self.send_header("content-length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args: object) -> None:
                """Quiet: `asked` is the log."""

        self._listen(Handler)
        return self

    @property
    def url(self) -> str:
        return self.origin
