"""The negotiation view: an offered price of one provider, who moves, what it saves, and the walk-away prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.negotiation import DISCOUNTS, HIGHEST, LOWEST, Offer, PriceCurve, make_offer, price_curve, price_now
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.archive import Archive
from plumbline.dashboard.decision_query import PROVIDERS_SHOWN, AdjustedDecision, InvalidDecisionQuery, compute_decision, find_preference
from plumbline.dashboard.rendering import PageRenderer, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations
from plumbline.presentation.charts.decisions import price_curve_chart
from plumbline.workflows.current_results import decide_teams


@dataclass(frozen=True)
class Negotiation:
    """`offer`: at the offered price, over all teams; `curve`: of this choice, over prices. Prices are USD per instance-hour."""

    team: str
    kind: WorkloadKind
    workloads: tuple[str, ...]
    providers: tuple[str, ...]
    accelerators: int
    unit: str
    volumes: bool
    offer: Offer
    curve: PriceCurve

    def as_json(self) -> dict[str, Any]:
        """The JSON of `plumbline negotiate`, with the curve."""
        names = ("team", "kind", "workloads", "providers", "curve")
        printed = {"provider": self.offer.provider, "usd_per_hour": self.offer.usd_per_hour, "offers": [self.offer]}
        return {**printed, **{name: getattr(self, name) for name in names}}


def read_negotiation(
    archive: Archive,
    declarations: Declarations,
    today: date,
    choices: AnswerCache,
    team: str,
    kind: WorkloadKind,
    provider: str,
    workload: str,
    price: float | None,
    less: float,
) -> Negotiation:
    """Effects of an offered price; the decisions and curves that several offers share are cached. `provider`: the first that is not first if
    empty; `price`: today's if None; `less`: percent below it instead.

    LookupError for an unknown choice or provider; InvalidDecisionQuery for a price out of range, and where no price is in use.
    """
    basis, key = (archive, declarations, today), ("negotiated", team, kind, workload)
    adjusted: AdjustedDecision = choices.get(*basis, key, lambda: compute_decision(*basis, team, kind, workload or None))
    provider_names = [r.provider for r in adjusted.decided.decision.ranking]
    chosen = provider or next(iter([*provider_names[1:], *provider_names]), "")
    if chosen not in provider_names:
        raise LookupError(f'"{chosen}" has no results of this choice; expected one of {", ".join(provider_names) or "(none)"}')
    try:
        current_price = price_now(adjusted.decided, chosen)
    except ValueError as error:
        raise InvalidDecisionQuery(str(error)) from error
    offered = current_price * (1 - less / 100) if less or price is None else price
    if not current_price / 100 <= offered <= current_price * 100:
        raise InvalidDecisionQuery(
            f"an offered price of {offered:g} USD/h; expected one from {current_price / 100:.4g} to {current_price * 100:.4g}"
        )
    decided: Sequence[TeamDecision] = choices.get(*basis, "all", lambda: decide_teams(*basis))
    teams = [d for d in decided if any(r.provider == chosen for r in d.decision.ranking)]
    curve = choices.get(*basis, (*key, chosen), lambda: price_curve(_leading_decision(adjusted.decided, chosen), chosen, current_price))
    accelerator = adjusted.decided.current.providers[chosen].accelerator
    volumes = declarations.alerts.volumes
    return Negotiation(
        team, kind, adjusted.decided.preference.workloads, tuple(sorted(provider_names)), accelerator.count,
        "core-hour" if accelerator.kind == "cpu" else "GPU-hour", bool(volumes),
        make_offer(teams, chosen, current_price, offered, volumes), curve,
    )  # fmt: skip


def _leading_decision(decided: TeamDecision, provider: str) -> TeamDecision:
    """Among the first by score, the first by cost, and the provider: the others change neither first place."""
    cheapest_providers = {s.provider for c in decided.cheapest for s in c.setups[:PROVIDERS_SHOWN]}
    return decided.among({r.provider for r in decided.decision.ranking[:PROVIDERS_SHOWN]} | cheapest_providers | {provider})


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, choices: AnswerCache) -> PageRoutes:
    """`/decisions/{team}/{kind}/negotiate`."""
    routes = PageRoutes()

    @routes.page("/decisions/{team}/{kind}/negotiate")
    def show_negotiation(
        request: Request,
        team: str,
        kind: Literal["training", "inference"],
        parts: Parts,
        provider: str = Query("", max_length=200),
        workload: str = Query("", max_length=200),
        price: str = Query("", max_length=40),
        less: float = Query(0.0, ge=0, lt=100, description="percent below the price of today"),
    ) -> Response:
        try:
            basis = reader.archive(), declared.now(), pages.now().date()
            preference = find_preference(basis[1], team, kind, workload or None)
            offered = None if less or not price else float(price)
            # A page with an offered price was opened for its answer: it waits in any case.
            waits = bool(price or less or waits_for(basis[0], parts))
            negotiation = choices.get_if(
                waits,
                *(*basis, ("offer", team, kind, provider, workload, offered, less)),
                lambda: read_negotiation(*basis, choices, team, kind, provider, workload, offered, less),
            )
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except ValueError as error:  # InvalidDecisionQuery, and what is no number
            text = str(error) if isinstance(error, InvalidDecisionQuery) else f'"{price}" is no price; expected USD per instance-hour'
            return pages.refused_query(request, {"price": text})
        low, high = (round(end * negotiation.offer.usd_per_hour, 2) if negotiation else 0.0 for end in (LOWEST, HIGHEST))
        return pages.page(
            request,
            "negotiation.html.j2",
            negotiation and negotiation.as_json(),
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
