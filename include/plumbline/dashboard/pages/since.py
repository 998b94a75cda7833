"""What happened since a day: one stream of events, as page, JSON and Atom feed."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import NavEntry, PageRoutes, base_path
from plumbline.dashboard.site import Site
from plumbline.presentation.events.atom import CONTENT_TYPE, atom_feed
from plumbline.presentation.events.stream import EventList, count_events, event_note, read_stream, since_moment

SHORTCUTS = (("since Monday", "monday"), ("7 days", "7d"), ("30 days", "30d"))
FEED_SPAN = "30d"
Since = Annotated[str, Query(max_length=40, description="a day such as 2026-11-02, a time back from now such as 7d, or monday")]
OfProvider = Annotated[str, Query(max_length=200, description="events that concern this provider alone")]


def router(site: Site) -> PageRoutes:
    """`/since` and `/since.atom`."""
    routes = PageRoutes(NavEntry(45, "Events", "/since"))
    pages, reader, declared = site.pages, site.reader, site.declared

    def stream_of(request: Request, since: str, provider: str) -> EventList:
        money, now = can_see_costs(request), pages.now()
        archive, known = reader.archive(money), declared.now(money)
        if provider and provider not in known.providers and not archive.series_of([provider]):
            raise HTTPException(404, f'no provider is called "{provider}"')
        return pages.shown(request, read_stream(archive, known, since_moment(since, now), now, provider=provider, money=money))

    @routes.get("/since.atom", response_class=Response)
    def show_feed(request: Request, since: Since = FEED_SPAN, provider: OfProvider = "") -> Response:
        try:
            stream = stream_of(request, since, provider)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        address = str(request.base_url).rstrip("/")
        return Response(atom_feed(stream, address, str(request.url)), media_type=CONTENT_TYPE)

    @routes.page("/since")
    def show_since(request: Request, since: Since = "", provider: OfProvider = "") -> Response:
        try:
            stream = stream_of(request, since, provider)
        except ValueError as error:
            return pages.refused_query(request, {"since": str(error)})
        money, base = can_see_costs(request), base_path(request)
        return pages.page(
            request,
            "since.html.j2",
            stream,
            s=stream,
            counts=count_events(stream.events),
            notes={event.event_id: event_note(event) for event in stream.events},
            providers=sorted({*declared.now(money).providers, *reader.archive(money).provider_names()}),
            shortcuts=[(name, f"{base}/since?since={value}{f'&provider={provider}' if provider else ''}") for name, value in SHORTCUTS],
            provider=provider,
            given=since,
        )

    return routes
