"""Style sheets and scripts of the pages. Plotly's script is of the wheel in `requirements/plotly.txt`: see `make lock`."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

_IMMUTABLE_CACHE = "private, max-age=31536000, immutable"
_SHORT_CACHE = "private, max-age=300"


class Assets:
    """The files of `/static/…`, by name; no other file can be reached. Airflow compresses what it serves."""

    def __init__(self) -> None:
        folder = files("plumbline.dashboard") / "static"
        self._paths = {item.name: Path(str(item)) for item in folder.iterdir() if Path(item.name).suffix in (".css", ".js")}
        self._paths["report.css"] = Path(str(files("plumbline.presentation.html") / "templates" / "report.css"))

    def versioned(self, name: str) -> str:
        """The path below `/static/` with the file's version; LookupError for a name that is not served."""
        return f"{name}?v={_version(self._path(name))}"

    def response(self, name: str, version: str | None) -> FileResponse:
        """The file; a browser may keep it for good under its version. LookupError for a name that is not served."""
        path = self._path(name)
        return FileResponse(path, headers={"Cache-Control": _IMMUTABLE_CACHE if version == _version(path) else _SHORT_CACHE})

    def _path(self, name: str) -> Path:
        if name not in self._paths:
            raise LookupError(f'no file of the pages is called "{name}"; expected one of {", ".join(sorted(self._paths))}')
        return self._paths[name]


@lru_cache(maxsize=32)
def _version(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def router(assets: Assets) -> APIRouter:
    """`/static/{name}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/static/{name}")
    def show_asset(name: str, v: str | None = None) -> FileResponse:
        try:
            return assets.response(name, v)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error

    return routes
