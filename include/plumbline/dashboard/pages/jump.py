"""Everything that a jump by name can reach: pages, providers, workloads, decisions, campaigns."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import COST_PAGES, NAV
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader

CAMPAIGNS = 50
"""Newest campaigns that a jump finds."""


def router(reader: ArchiveReader, declared: DeclarationsReader) -> APIRouter:
    """`/jump`: (kind, name, path) of each place, for the script of the pages."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/jump")
    def show_places(request: Request) -> Response:
        money = can_see_costs(request)
        archive, known = reader.archive(money), declared.now(money)
        places = [("page", name, path) for name, path in NAV if money or path not in COST_PAGES]
        places += [("provider", n, f"/providers/{quote(n)}") for n in sorted({*known.providers, *archive.provider_names()})]
        workloads = sorted({*known.workloads, *(w.workload for w in archive.workload_names())})
        places += [("workload", n, f"/workloads/{quote(n)}") for n in workloads]
        for team in known.teams.values() if money else ():
            kinds = [kind for kind in ("training", "inference") if team.preferences(kind)]
            places += [("decision", f"{team.name} {kind}", f"/decisions/{quote(team.name)}/{kind}") for kind in kinds]
        places += [("campaign", c.campaign_id, f"/campaigns/{quote(c.campaign_id)}") for c in archive.campaigns_page(limit=CAMPAIGNS).rows]
        return JSONResponse([{"kind": kind, "name": name, "path": path} for kind, name, path in places])

    return routes
