"""`plumbline prices list|check|accept`."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from plumbline.analysis.prices.check import PriceVerdict, implausible
from plumbline.answers.prices_in_force import TermPrice, pending_text, term_prices
from plumbline.cli.declared import declared_providers, load_declared
from plumbline.cli.exit_status import DRIFTED, FAILED
from plumbline.cli.findings import Why
from plumbline.cli.output import Json, clear_errors, emit, err, fields_of, out, planning_archive, read_archive, table
from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import ListedPurchase, Term
from plumbline.findings.price import format_price_source, price_unit
from plumbline.findings.types.price_change import format_price_name
from plumbline.metrics.formatting import format_amount, format_change, format_money
from plumbline.price_sources import read_prices
from plumbline.results.price_reading import Reading
from plumbline.words.prices import price_reason, verdict_reason
from plumbline.workflows.accept_price import accept_command, accept_price
from plumbline.workflows.decide import DecisionsLocked
from plumbline.workflows.read_prices import PriceCheckResult, read_and_store_prices

prices = typer.Typer(help="Read, check and accept prices.", no_args_is_help=True)


@prices.command("list")
def list_prices(
    provider: Annotated[str | None, typer.Argument(help="one provider, enabled or not; left out, every enabled one")] = None,
    as_json: Json = False,
) -> None:
    """Show the price in force of each purchase and term, since when, by whom and why; then read every declared source now, and show its prices
    per hour of a GPU (of a core, where there is none) and of the instance.

    Nothing is stored. A source that fails is named on standard error, the others are shown all the same; the exit code is then 1.
    """
    at = datetime.now(timezone.utc)
    world = load_declared()
    chosen = declared_providers(world, [provider]) if provider is not None else world.enabled_providers()
    names = [place.name for place in chosen]
    with planning_archive() as archive:
        newest = archive.newest_readings(names)
        stored = {name: [r for r in newest if r.provider == name] for name in names}
        held = term_prices(archive, chosen, stored, archive.findings_of(names, "price", unsettled=True), at.date())
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for place in chosen:
        answer = read_prices(place, world, at)
        rows += [_row(place, reading, answer.readings) for reading in answer.readings]
        failures += [str(failure) for failure in answer.failures]
    silent = [place.name for place in chosen if not place.price_sources and not place.simulated]

    def show() -> None:
        _show_in_force(held)
        _show(rows)
        for failure in failures:
            err.print(failure, style="red")
        if silent:
            out.print(f"no price_sources are declared: {', '.join(silent)}")

    emit(
        as_json,
        {"at": at, "in_force": [asdict(price) for price in held], "readings": rows, "failures": failures, "without_sources": silent},
        show,
    )
    if failures:
        raise typer.Exit(FAILED)


def _show_in_force(prices_held: Sequence[TermPrice]) -> None:
    shown = table("Prices in force", "provider", "term", "USD/h", "since", "by, why", "pending", right=("USD/h",))
    for price in prices_held:
        said = f"{price.by}: {price.why}" if price.by else price.source
        shown.add_row(
            price.provider, price.name, format_amount(price.usd), str(price.since or "–"), said or "–", pending_text(price) or "none"
        )
    if prices_held:
        out.print(shown)


def _row(provider: Provider, reading: Reading, along: Sequence[Reading]) -> dict[str, Any]:
    declared = provider.price_on(reading.observed_at.date(), reading.purchase)
    on_demand = next((other.usd_per_gpu_hour for other in along if other.purchase == "on_demand"), None)
    why = implausible(reading, None, on_demand)
    return {
        **reading.stored,
        "usd_per_gpu_hour": reading.usd_per_gpu_hour,
        "usd_per_instance_hour": reading.usd_per_instance_hour,
        "declared_usd_per_instance_hour": declared.price if declared is not None else None,
        "reading_id": reading.reading_id,
        "implausible": None if why is None else price_reason(why, reading),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    money = ("USD/GPU-h", "USD/h")
    shown = table("Prices reported by sources", "provider", "purchase", *money, "original", "source", "observed (UTC)", right=money)
    for row in rows:
        per = "GPU-h" if row["per"] == "gpu_hour" else "h"
        shown.add_row(
            row["provider"],
            format_price_name(row["purchase"], row["term"]),
            format_amount(row["usd_per_gpu_hour"]),
            format_amount(row["usd_per_instance_hour"]),
            f"{row['amount']:.10g} {row['currency']}/{per}",
            f"{row['source']}: {row['source_version']}",
            f"{row['observed_at']:%Y-%m-%d %H:%M}",
        )
    if rows:
        out.print(shown)
    for row in rows:
        if row["implausible"] is not None:
            out.print(f"{row['provider']} {format_price_name(row['purchase'], row['term'])} is implausible: {row['implausible']}")


@prices.command("check")
def check_prices(
    provider: Annotated[str | None, typer.Argument(help="one provider, enabled or not; left out, every enabled one")] = None,
    as_json: Json = False,
) -> None:
    """Read every source now, store the prices, and compare them with the accepted ones, as the daily check does.

    Exit code 4 if a price has changed or is held, 1 if a source failed; the others are read all the same.
    """
    at = datetime.now(timezone.utc)
    world = load_declared()
    chosen = declared_providers(world, [provider]) if provider is not None else world.enabled_providers()
    with read_archive(empty=True) as archive:
        results = [read_and_store_prices(archive, world, place, at) for place in chosen]

    def show() -> None:
        _show_checks(chosen, results)
        for note in (note for one in results for note in one.notes):
            err.print(note, style="red")
        silent = [one.provider for one in results if not one.checks and not one.notes]
        if silent:
            out.print(f"no source reports a price: {', '.join(silent)}")

    emit(as_json, [_as_data(one) for one in results], show)
    if any(one.notes for one in results):
        raise typer.Exit(FAILED)
    if any(c.status in ("changed", "held") for one in results for c in one.checks):
        raise typer.Exit(DRIFTED)


@prices.command()
def accept(
    provider: Annotated[str, typer.Argument()],
    why: Why,
    purchase: Annotated[ListedPurchase, typer.Option(help="how it is paid for")] = "on_demand",
    term: Annotated[Term | None, typer.Option(help="how long a reservation binds")] = None,
    price: Annotated[
        float | None, typer.Option(help="USD per GPU-hour (per core-hour, where there is no GPU); left out, the one that was read last")
    ] = None,
    as_json: Json = False,
) -> None:
    """Accept a price: costs use it, and readings are compared with it. Its findings are settled, and every team's decision is recomputed:
    a first choice that changed is named, and is a finding."""
    declared = load_declared()
    (place,) = declared_providers(declared, [provider])
    with clear_errors(LookupError, ValueError, DecisionsLocked):
        if term is not None and purchase != "reserved":
            raise ValueError(f"--term {term} of {purchase}: only reservations have one; expected --purchase reserved")
        with read_archive(empty=True) as archive:
            by = getpass.getuser()
            accepted = accept_price(archive, place, purchase, term, by=by, why=why, usd_per_gpu_hour=price, declared=declared)
    made = accepted.price
    per_gpu = made.usd_per_hour / place.accelerator.count
    text = f"{provider} {format_price_name(purchase, term)}: {format_money(per_gpu)} per {price_unit(place.accelerator.kind)} ({format_money(made.usd_per_hour, 'USD/h')}) is accepted, since {made.since}"
    if accepted.repeated:
        text += "; it was accepted before, so this reason was not kept"
    if place.simulated:
        text += "; its costs stay what its simulation declares"
    moved = [one for one in accepted.decisions if one.new and one.first != one.before]

    def show() -> None:
        out.print(text)
        for one in moved:
            out.print(f"{one.text}, was {one.before or 'none'}")

    emit(as_json, {**asdict(made), "first_choices_changed": moved}, show)


def _show_checks(places: Sequence[Provider], results: list[PriceCheckResult]) -> None:
    rows = [(place, checked) for place, one in zip(places, results, strict=True) for checked in one.checks]
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
            format_price_name(checked.reading.purchase, checked.reading.term),
            format_amount(checked.accepted),
            format_amount(checked.price),
            format_change(checked.effect) or "–",
            checked.status.replace("_", " "),
            str(checked.since.date()),
            format_price_source(checked.reading),
        )
    out.print(shown)
    for place, checked in rows:
        title = f"{place.name} {format_price_name(checked.reading.purchase, checked.reading.term)}"
        if checked.status == "outdated":
            out.print(f"{title} is outdated: {verdict_reason(checked)}; expected a newer catalog")
        if checked.status == "held":
            command = accept_command(place, checked.reading.purchase, checked.reading.term)
            remedy = f"`{command}` if it is right" if checked.price > 0 else f"`{command} --price USD` if you know what it is"
            out.print(f"{title} is held: {verdict_reason(checked)}; {remedy}")


def _as_data(one: PriceCheckResult) -> dict[str, Any]:
    prices = [_price(checked) for checked in one.checks]
    head = {"provider": one.provider, "at": one.at, "new_readings": one.readings, "prices": prices}
    return {**head, **fields_of(one, "changes", "findings", "opened"), "failures": one.notes}


def _price(checked: PriceVerdict) -> dict[str, Any]:
    return {
        **fields_of(checked.reading, "purchase", "term"),
        "meaning": checked.status,
        "accepted_usd_per_gpu_hour": checked.accepted,
        "usd_per_gpu_hour": checked.price,
        **fields_of(checked, "effect", "since", "sightings", "confirmed_by"),
        "reason": verdict_reason(checked),
        "reading_id": checked.reading.reading_id,
    }
