"""Slow parts of a page over a large fleet: the page answers without them, and static/parts.js puts them in from the page's other addresses."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlencode

from fastapi import Request

from plumbline.archive import Archive

IMMEDIATE_PROVIDERS = 12
"""With results of so many providers or fewer, a page waits for all its parts: a loading state would only flash."""

Parts = Literal["", "main", "all"]
"""What a page waits for: the parts that are cached, its main part too, or everything."""


def waits_for(archive: Archive, parts: Parts) -> Parts:
    """`parts`, or all of them where the fleet is small."""
    return parts if parts != "all" and len(archive.provider_names()) > IMMEDIATE_PROVIDERS else "all"


def address_with(request: Request, parts: Parts) -> str:
    """The query of this page that waits for `parts`."""
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "parts"]
    return f"?{urlencode([*parameters, ('parts', parts)])}"
