"""Style sheets and scripts of the pages, with Plotly as it is installed."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

PLOTLY = "plotly.min.js"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_IMMUTABLE_CACHE = "private, max-age=31536000, immutable"
_SHORT_CACHE = "private, max-age=300"
_MIN_COMPRESSED_BYTES = 1400
"""Bytes below which compressing saves no packet."""


@dataclass(frozen=True)
class Asset:
    """One file, read once. `version` is the beginning of its SHA-256: a URL with it may be cached forever."""

    content: bytes
    packed: bytes | None
    version: str
    media_type: str


class Assets:
    """What `/static/…` serves, by name; no other file can be reached."""

    def __init__(self) -> None:
        folder = files("plumbline.dashboard") / "static"
        self._paths = {item.name: Path(str(item)) for item in folder.iterdir() if Path(item.name).suffix in _TYPES}
        self._paths["report.css"] = Path(str(files("plumbline.presentation.html") / "templates" / "report.css"))
        self._paths[PLOTLY] = _plotly()

    def versioned(self, name: str) -> str:
        """The path below `/static/` with the file's version; LookupError for a name that is not served."""
        return f"{name}?v={self._read(name).version}"

    def response(self, request: Request, name: str, version: str | None) -> Response:
        """The file, gzipped if accepted; 304 if unchanged. LookupError for a name that is not served."""
        asset = self._read(name)
        packed = asset.packed if "gzip" in request.headers.get("accept-encoding", "") else None
        tag = f'"{asset.version}{"-gz" if packed else ""}"'
        headers = {"ETag": tag, "Cache-Control": _IMMUTABLE_CACHE if version == asset.version else _SHORT_CACHE, "Vary": "Accept-Encoding"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if packed is not None:
            headers["Content-Encoding"] = "gzip"
        return Response(packed or asset.content, media_type=asset.media_type, headers=headers)

    def _read(self, name: str) -> Asset:
        if name not in self._paths:
            raise LookupError(f'no file of the pages is called "{name}"; expected one of {", ".join(sorted(self._paths))}')
        return _asset(self._paths[name])


@lru_cache(maxsize=32)
def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    # mtime 0: the same file is the same bytes, whenever it was packed.
    packed = gzip.compress(content, 6, mtime=0) if len(content) >= _MIN_COMPRESSED_BYTES else None
    return Asset(content, packed, hashlib.sha256(content).hexdigest()[:16], _TYPES[path.suffix])


def _plotly() -> Path:
    # Found, not imported: `import plotly` costs every first page a second, and only the file is wanted.
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise LookupError("the package plotly is not installed; the pages serve its script from there")
    return Path(spec.origin).parent / "package_data" / PLOTLY


def router(assets: Assets) -> APIRouter:
    """`/static/{name}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/static/{name}")
    def show_asset(request: Request, name: str, v: str | None = None) -> Response:
        try:
            return assets.response(request, name, v)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error

    return routes
