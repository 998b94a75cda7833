"""Everything that a jump can reach: pages, providers, workloads, decisions, campaigns by name; findings, trials and stored decisions by id; entries
of the operations log, such as tickets, by id, reference and words; nodes of acceptances by name."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

from fastapi import Query, Request
from fastapi.responses import Response

from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import PageRoutes, anchor
from plumbline.dashboard.site import Site
from plumbline.presentation.promises import declared_promises
from plumbline.workflows.acceptances import accepted_nodes

CAMPAIGNS = 50
"""Newest campaigns that a jump finds."""
SHORTEST, MOST = 3, 6
"""Characters of a part of an id that is looked up, and ids of a kind that are found."""


def router(site: Site) -> PageRoutes:
    """`/jump`: (kind, name, path) of each place, for the script of the pages; `/jump/ids`: the same of ids, log entries and nodes that contain a text."""
    routes = PageRoutes(include_in_schema=False)
    reader, declared = site.reader, site.declared

    @routes.get("/jump")
    def show_places(request: Request) -> Response:
        money = can_see_costs(request)
        archive, known = reader.archive(money), declared.now(money)
        places = [("page", each.title, each.path) for each in site.pages.entries(money)]
        places += [("provider", n, f"/providers/{quote(n)}") for n in sorted({*known.providers, *archive.provider_names()})]
        workloads = sorted({*known.workloads, *(w.workload for w in archive.workload_names())})
        places += [("workload", n, f"/workloads/{quote(n)}") for n in workloads]
        for team in known.teams.values() if money else ():
            kinds = [kind for kind in ("training", "inference") if team.preferences(kind)]
            places += [("decision", f"{team.name} {kind}", f"/decisions/{quote(team.name)}/{kind}") for kind in kinds]
        places += [("campaign", c.campaign_id, f"/campaigns/{quote(c.campaign_id)}") for c in archive.campaigns_page(limit=CAMPAIGNS).rows]
        promising = sorted(name for name, provider in known.providers.items() if declared_promises(provider.sla))
        places += [("promises", n, f"/providers/{quote(n)}/promises") for n in promising]
        return site.pages.json(request, [{"kind": kind, "name": name, "path": path} for kind, name, path in places])

    @routes.get("/jump/ids")
    def show_identifiers(request: Request, part: str = Query("", max_length=200)) -> Response:
        money, places = can_see_costs(request), []
        archive = reader.archive(money)
        for kind, name, place in archive.find_identifiers(part.strip(), MOST) if len(part.strip()) >= SHORTEST else ():
            with suppress(LookupError):  # a finding about money
                if kind == "finding":
                    archive.finding(name)
                path = f"/decisions/{quote(place)}#decision-{quote(name)}" if place else f"/{kind}s/{quote(name)}"
                if money or not place:
                    places.append({"kind": kind, "name": name, "path": path})
        text = part.strip().lower()
        entries = archive.operations() if len(text) >= SHORTEST else []
        found = [e for e in entries if any(text in named.lower() for named in (e.entry_id, e.reference, e.what))]
        for e in found[:MOST]:
            name = " ".join(filter(None, (e.reference, e.what)))
            places.append({"kind": e.kind, "name": name, "path": f"/providers/{quote(e.provider)}/promises#log-{e.entry_id}"})
        nodes = (
            site.choices.get(archive, declared.now(), site.pages.now().date(), ("nodes",), lambda: accepted_nodes(archive)) if text else []
        )
        named = [each for each in nodes if text in each[1].lower()] if len(text) >= SHORTEST else []
        for provider, node, trial in named[:MOST]:
            places.append({"kind": "node", "name": f"{node} of {provider}", "path": f"/acceptance#{provider}-{anchor(node)}"})
            places.append({"kind": "node", "name": f"{node} of {provider}: its trial", "path": f"/trials/{quote(trial)}"})
        return site.pages.json(request, places)

    return routes
