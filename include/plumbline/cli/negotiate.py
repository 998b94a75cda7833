"""`plumbline negotiate`: what lower prices of one provider would change."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer

from plumbline.analysis.decisions.negotiation import DISCOUNTS, Offer, make_offer, price_now
from plumbline.cli.output import Json, clear_errors, completed, emit, out, read_archive, table
from plumbline.cli.tables import print_table
from plumbline.declarations import DeclarationError, load
from plumbline.metrics.formatting import format_change, format_money
from plumbline.workflows.current_results import decide_teams


def negotiate(
    provider: Annotated[str, typer.Argument(help="its name, or how that begins", callback=completed("provider"))],
    less: Annotated[list[str] | None, typer.Option(help="below the price in force, such as 10%; several times for several rows")] = None,
    price: Annotated[list[float] | None, typer.Option(min=0.0, help="an offered price, USD per instance-hour")] = None,
    as_json: Json = False,
) -> None:
    shares = [_share(text) for text in (less or ([] if price else [f"{percent}%" for percent in DISCOUNTS]))]
    with clear_errors(DeclarationError, LookupError, ValueError), read_archive() as archive:
        declared = load()
        decided = [
            d
            for d in decide_teams(archive, declared, datetime.now(timezone.utc).date())
            if any(ranked.provider == provider for ranked in d.decision.ranking)
        ]
        if not decided:
            raise LookupError(f"{provider} is in no team's ranking; expected a provider with current results of a declared choice")
        now, volumes = price_now(decided[0], provider), declared.alerts.volumes
        prices = [*(now * (1 - share) for share in shares), *(price or ())]
        offers = [make_offer(decided, provider, now, offered, volumes) for offered in prices]

    def show() -> None:
        out.print(f"{provider}: {format_money(now, 'USD/h')} now, in {len(decided)} choices")
        shown = table("", "offer", "change", "first choices that move", "saves a month", right=("offer", "change", "saves a month"))
        for offer in offers:
            saves = format_money(offer.saves) if volumes else "no volumes declared"
            shown.add_row(format_money(offer.offered, "USD/h"), format_change(offer.offered / now - 1), _moves(offer), saves)
        print_table(shown)

    emit(as_json, {"provider": provider, "usd_per_hour": now, "offers": offers}, show)


def _share(text: str) -> float:
    number = text.strip().removesuffix("%").strip()
    try:
        percent = float(number)
    except ValueError:
        percent = -1.0
    if not 0 < percent < 100:
        raise typer.BadParameter(f'"{text}" is no discount; expected percent between 0 and 100, such as 10%', param_hint="--less")
    return percent / 100


def _moves(offer: Offer) -> str:
    moved = [f"{t.team}, {' + '.join(t.workloads)}: {t.now.first or 'none'} → {t.offered.first or 'none'}" for t in offer.teams if t.moves]
    return "\n".join(moved) or "none"
