"""`plumbline prices check` and `accept`: what the sources' prices mean against what was accepted, and a person's word on it."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from plumbline.cli.findings import Why
from plumbline.cli.opening import open_archive
from plumbline.cli.output import DRIFTED, FAILED, Json, clear_errors, emit, err, fail, out, table
from plumbline.declarations import DeclarationError, Provider, load
from plumbline.declarations.purchases import Purchase, Term
from plumbline.drift.price import source_of, unit_of, what
from plumbline.drift.wording import percent
from plumbline.orchestration.accepted_prices import accept_and_rank, how_to_accept
from plumbline.orchestration.pricing import PricesSeen, snapshot
from plumbline.orchestration.ranking import Busy
from plumbline.prices.check import Checked


def check_prices(
    provider: Annotated[str | None, typer.Argument(help="one provider, enabled or not; left out, every enabled one")] = None,
    as_json: Json = False,
) -> None:
    """Ask every source now, store what they say, and hold it against the accepted prices, as the daily watch does.

    Exit code 4 if a price has changed or is held, 1 if a source failed; the others are heard all the same.
    """
    at = datetime.now(timezone.utc)
    with clear_errors(DeclarationError):
        world = load()
    chosen = (_declared(world.providers, provider),) if provider is not None else world.enabled_providers()
    with open_archive() as archive:
        seen = [snapshot(archive, world, place, at) for place in chosen]

    def show() -> None:
        _show(chosen, seen)
        for note in (note for one in seen for note in one.notes):
            err.print(note, style="red", highlight=False, markup=False, soft_wrap=True)
        silent = [one.provider for one in seen if not one.checks and not one.notes]
        if silent:
            out.print(f"no source tells a price: {', '.join(silent)}", highlight=False, soft_wrap=True)

    emit(as_json, [_plain(one) for one in seen], show)
    if any(one.notes for one in seen):
        raise typer.Exit(FAILED)
    if any(c.meaning in ("changed", "held") for one in seen for c in one.checks):
        raise typer.Exit(DRIFTED)


def accept(
    provider: Annotated[str, typer.Argument()],
    why: Why,
    purchase: Annotated[Purchase, typer.Option(help="how it is paid for")] = "on_demand",
    term: Annotated[Term | None, typer.Option(help="how long a reservation binds")] = None,
    price: Annotated[
        float | None, typer.Option(help="USD per GPU-hour (per core-hour, where there is no GPU); left out, the one that was read last")
    ] = None,
    as_json: Json = False,
) -> None:
    """Accept a price: from now on it is what costs are reckoned with and what readings are held against. It settles the findings about it, and
    every team's decision is made again: a first choice that changed is named, and is a finding."""
    with clear_errors(DeclarationError, LookupError, ValueError, Busy):
        declared = load()
        place = _declared(declared.providers, provider)
        if term is not None and purchase != "reserved":
            raise ValueError(f"--term {term} of {purchase}: only reservations have one; expected --purchase reserved")
        with open_archive() as archive:
            by = getpass.getuser()
            made, ranked = accept_and_rank(archive, declared, place, purchase, term, by=by, why=why, usd_per_gpu_hour=price)
    per_gpu = made.usd_per_hour / place.accelerator.count
    said = f"{provider} {what(purchase, term)}: {per_gpu:.4f} USD per {unit_of(place.accelerator.kind)} ({made.usd_per_hour:.4f} USD/h) is accepted, since {made.since}"
    if place.simulated:
        said += "; its costs stay what its simulation declares"
    moved = [one for one in ranked if one.new and one.first != one.before]

    def show() -> None:
        out.print(said, highlight=False, soft_wrap=True)
        for one in moved:
            out.print(f"{one.text}, was {one.before or 'nobody'}", highlight=False, soft_wrap=True)

    emit(as_json, {**asdict(made), "first_choices_changed": moved}, show)


def _declared(providers: dict[str, Provider], name: str) -> Provider:
    if name not in providers:
        fail(f'no provider is called "{name}"; expected one of {", ".join(sorted(providers))}')
    return providers[name]


def _show(places: Sequence[Provider], seen: list[PricesSeen]) -> None:
    rows = [(place, checked) for place, one in zip(places, seen, strict=True) for checked in one.checks]
    if not rows:
        return
    money = ("accepted", "price", "move")
    shown = table(
        "What prices mean, in USD per hour of a GPU (of a core, where there is none)",
        "provider",
        "purchase",
        *money,
        "meaning",
        "since",
        "source",
        right=money,
    )
    for place, checked in rows:
        shown.add_row(
            place.name,
            what(checked.reading.purchase, checked.reading.term),
            "–" if checked.accepted is None else f"{checked.accepted:.4f}",
            f"{checked.price:.4f}",
            "–" if checked.effect is None else percent(checked.effect),
            checked.meaning.replace("_", " "),
            str(checked.since.date()),
            source_of(checked.reading),
        )
    out.print(shown)
    for place, checked in rows:
        if checked.reason is not None:
            named = f"{place.name} {what(checked.reading.purchase, checked.reading.term)}"
            command = how_to_accept(place, checked.reading.purchase, checked.reading.term)
            remedy = f"`{command}` if it is right" if checked.price > 0 else f"`{command} --price USD` if you know what it is"
            out.print(f"{named} is held: {checked.reason}; {remedy}", highlight=False, markup=False, soft_wrap=True)


def _plain(one: PricesSeen) -> dict[str, Any]:
    return {
        "provider": one.provider,
        "at": one.at,
        "new_readings": one.readings,
        "prices": [_price(checked) for checked in one.checks],
        "changes": one.changes,
        "findings": one.findings,
        "opened": one.opened,
        "failures": one.notes,
    }


def _price(checked: Checked) -> dict[str, Any]:
    return {
        "purchase": checked.reading.purchase,
        "term": checked.reading.term,
        "meaning": checked.meaning,
        "accepted_usd_per_gpu_hour": checked.accepted,
        "usd_per_gpu_hour": checked.price,
        "effect": checked.effect,
        "since": checked.since,
        "sightings": checked.sightings,
        "confirmed_by": checked.confirmed_by,
        "reason": checked.reason,
        "reading_id": checked.reading.reading_id,
    }
