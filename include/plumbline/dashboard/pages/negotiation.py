"""The negotiation view: an offered price of one provider, who moves, what it saves, and the walk-away prices."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.analysis.decisions.negotiation import DISCOUNTS
from plumbline.dashboard.api.decisions import InvalidDecisionQuery, find_preference
from plumbline.dashboard.api.negotiation import NegotiationReader, price_range
from plumbline.dashboard.parts import Parts, address_with, waits_for
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader
from plumbline.presentation.charts.decisions import price_curve_chart


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, negotiations: NegotiationReader) -> APIRouter:
    """`/decisions/{team}/{kind}/negotiate`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/decisions/{team}/{kind}/negotiate", response_class=HTMLResponse)
    def show_negotiation(
        request: Request,
        team: str,
        kind: Literal["training", "inference"],
        provider: str = Query("", max_length=200),
        workload: str = Query("", max_length=200),
        price: str = Query("", max_length=40),
        less: float = Query(0.0, ge=0, lt=100, description="percent below the price of today"),
        parts: Parts = "",
    ) -> Response:
        try:
            preference = find_preference(declared.now(), team, kind, workload or None)
            # A page with an offered price was opened for its answer: it waits in any case.
            waits = bool(price or less or waits_for(reader.archive(), parts))
            negotiation = negotiations.read_if(waits, team, kind, provider, workload, None if less or not price else float(price), less)
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except ValueError as error:  # InvalidDecisionQuery, and what is no number
            text = str(error) if isinstance(error, InvalidDecisionQuery) else f'"{price}" is no price; expected USD per instance-hour'
            return pages.refused_query(request, {"price": text})
        low, high = price_range(negotiation.offer.usd_per_hour) if negotiation else (0.0, 0.0)
        return pages.page(
            request,
            "negotiation.html.j2",
            n=negotiation,
            team=team,
            kind=kind,
            workload=workload,
            workloads=preference.workloads,
            later="" if negotiation else address_with(request, "main"),
            discounts=DISCOUNTS,
            low=low,
            high=high,
            chart_of=price_curve_chart(negotiation.curve, negotiation.offer) if negotiation else None,
        )

    return routes
