"""Slow parts of a page over a large fleet: the page answers without them, and static/parts.js puts them in from the page's other addresses."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Depends, Request

from plumbline.archive import Archive
from plumbline.dashboard.rendering import wants_json

IMMEDIATE_PROVIDERS = 12
"""With results of so many providers or fewer, a page waits for all its parts: a loading state would only flash."""

Waiting = Literal["", "main", "all"]


def read_parts(request: Request, parts: Waiting = "") -> Waiting:
    """A page's dependency: what its address waits for. JSON waits for everything."""
    return "all" if wants_json(request) else parts


Parts = Annotated[Waiting, Depends(read_parts)]
"""The parts that a page waits for: the parts that are cached, its main part too, or everything."""


def waits_for(archive: Archive, parts: Waiting) -> Waiting:
    """`parts`, or all of them where the fleet is small."""
    return parts if parts != "all" and len(archive.provider_names()) > IMMEDIATE_PROVIDERS else "all"


def address_with(request: Request, parts: Waiting) -> str:
    """The query of this page that waits for `parts`."""
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "parts"]
    return f"?{urlencode([*parameters, ('parts', parts)])}"
