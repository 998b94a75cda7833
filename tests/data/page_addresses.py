"""Addresses of the dashboard's pages, from the app's own routes: what is asked of all of them needs no list that somebody keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import FastAPI
from fastapi.routing import APIRoute

OF_ROUTE = {
    "/static/{name}": {"name": "report.css"},
    "/campaigns/{campaign_id}/tables/{name}": {"name": "trials.csv"},
    "/campaigns/{campaign_id}/data-docs/{checked}/{suite}": {"checked": "lab-training", "suite": "index.html"},
}
"""What a parameter is, by route."""


def routes_of(app: FastAPI) -> list[APIRoute]:
    """Every route of the app."""
    found = [route for route in app.routes if isinstance(route, APIRoute)]
    if not found:
        raise LookupError("the app has no route")
    return found


def address_of(route: APIRoute, known: Mapping[str, str]) -> str:
    """The route's path with its parameters, and the query that it cannot do without, filled in from `known`.

    KeyError names a parameter that `known` has nothing for.
    """
    values = {**known, **OF_ROUTE.get(route.path, {})}
    path = re.sub(r"\{([^}:]+)(?::[^}]*)?\}", lambda m: values[m[1]], route.path)
    needed = {p.alias: values[p.alias] for p in route.dependant.query_params if p.field_info.is_required()}
    return f"{path}?{urlencode(needed)}" if needed else path
