"""`plumbline prices`: what the sources of prices say."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from plumbline.cli.output import FAILED, Json, clear_errors, emit, err, fail, out, table
from plumbline.declarations import DeclarationError, Provider, load
from plumbline.drift.price import what
from plumbline.prices import price_of
from plumbline.prices.reading import Reading
from plumbline.prices.sources import ask

prices = typer.Typer(help="What the sources of prices say.", no_args_is_help=True)


@prices.callback()
def group() -> None:
    """What the sources of prices say."""


@prices.command("list")
def list_prices(
    provider: Annotated[str | None, typer.Argument(help="one provider, enabled or not; left out, every enabled one")] = None,
    as_json: Json = False,
) -> None:
    """Ask every declared source now, and show its prices per hour of a GPU (of a core, where there is none) and of the instance.

    Nothing is stored. A source that fails is named on standard error, the others are shown all the same; the exit code is then 1.
    """
    at = datetime.now(timezone.utc)
    with clear_errors(DeclarationError):
        world = load()
    if provider is not None and provider not in world.providers:
        fail(f'no provider is called "{provider}"; expected one of {", ".join(sorted(world.providers))}')
    chosen = (world.providers[provider],) if provider is not None else world.enabled_providers()
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for place in chosen:
        told = ask(place, world, at)
        rows += [_row(place, reading) for reading in told.readings]
        failures += [str(failure) for failure in told.failures]
    silent = [place.name for place in chosen if not place.price_sources and not place.simulated]

    def show() -> None:
        _show(rows)
        for failure in failures:
            err.print(failure, style="red", highlight=False, markup=False, soft_wrap=True)
        if silent:
            out.print(f"no price_sources are declared: {', '.join(silent)}", highlight=False, soft_wrap=True)

    emit(as_json, {"at": at, "readings": rows, "failures": failures, "without_sources": silent}, show)
    if failures:
        raise typer.Exit(FAILED)


def _row(provider: Provider, reading: Reading) -> dict[str, Any]:
    declared = price_of(provider, reading.observed_at.date(), reading.purchase)
    return {
        "provider": reading.provider,
        "purchase": reading.purchase,
        "term": reading.term,
        "usd_per_gpu_hour": reading.usd_per_gpu_hour,
        "usd_per_instance_hour": reading.usd_per_instance_hour,
        "amount": reading.amount,
        "currency": reading.currency,
        "per": reading.per,
        "usd_per_unit": reading.usd_per_unit,
        "declared_usd_per_instance_hour": declared.price if declared is not None else None,
        "source": reading.source,
        "source_version": reading.source_version,
        "observed_at": reading.observed_at,
        "reading_id": reading.reading_id,
    }


def _show(rows: list[dict[str, Any]]) -> None:
    money = ("USD/GPU-h", "USD/h", "declared USD/h")
    shown = table("What the price sources say", "provider", "purchase", *money, "as told", "source", "observed (UTC)", right=money)
    for row in rows:
        declared, per = row["declared_usd_per_instance_hour"], "GPU-h" if row["per"] == "gpu_hour" else "h"
        shown.add_row(
            row["provider"],
            what(row["purchase"], row["term"]),
            f"{row['usd_per_gpu_hour']:.4f}",
            f"{row['usd_per_instance_hour']:.4f}",
            "–" if declared is None else f"{declared:.4f}",
            f"{row['amount']:.10g} {row['currency']}/{per}",
            f"{row['source']}: {row['source_version']}",
            f"{row['observed_at']:%Y-%m-%d %H:%M}",
        )
    if rows:
        out.print(shown)
