"""`make perf-prices ARGS="FILE …"`: a price history through the daily price check, compared with known changes.

Nothing is stored. The check's confirmed changes are accepted at once, and first prices that nothing contradicts; held ones never. With `--events`
it exits with 1 if a known list-price change of 1 % or more is missed, or an unknown one is reported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1] / "include"))

import typer
from price_replay import ReplayAlert, ReplayEvaluation, ReplayResult, evaluate_replay, known_changes, replay_readings

from plumbline.analysis.prices.check import LIST_MOVE, SPOT_MOVE
from plumbline.cli.exit_status import FAILED
from plumbline.cli.output import Json, clear_errors, emit, fail, out, table
from plumbline.findings.types.price_change import format_price_name
from plumbline.metrics.formatting import format_amount, format_change, format_percent
from plumbline.price_sources.csv_history import HistoryError, read_history


def main(
    file: Annotated[Path, typer.Argument(help="CSV of prices by day, such as docs/samples/config/prices.csv")],
    events: Annotated[Path | None, typer.Option(help="CSV of known changes to compare with, such as docs/samples/price-events.csv")] = None,
    provider: Annotated[
        str | None, typer.Option(help="only this one: aws, gcp/us-central1 or azure/eastus2/Standard_ND96isr_H100_v5")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a price history through the check: changes that it would have reported, held and ignored."""
    with clear_errors(HistoryError):
        readings = read_history(file, until=datetime.now(timezone.utc))
        done = replay_readings(reading for reading in readings if _is_chosen(reading.provider, provider))
        compared = None
        if events is not None:
            compared = evaluate_replay(done, [k for k in known_changes(events) if _is_chosen(k.provider, provider)])
    if not done.readings:
        fail(f"{file} has no price of {provider}" if provider else f"{file} has no prices; expected at least one row")

    def show() -> None:
        _show_replay("List prices that changed (in brackets: read once on the way)", done.of("changed", spot=False), "reported")
        _show_replay("Held for confirmation, never used", [*done.of("held", spot=False), *done.of("held", spot=True)], "until")
        _summary(done, compared)

    emit(as_json, _plain_replay(done, compared), show)
    if compared is not None and (compared.invented or compared.counts["missed"]):
        raise typer.Exit(FAILED)


def _is_chosen(name: str, provider: str | None) -> bool:
    return provider is None or name == provider or name.startswith(f"{provider.rstrip('/')}/")


def _show_replay(title: str, alerts: Sequence[ReplayAlert], second: Literal["reported", "until"]) -> None:
    """One row for all regions of an instance type whose price moved alike on one day; `second`: the day of the report, or of the last reading."""
    if not alerts:
        return
    alike: dict[tuple[Any, ...], list[ReplayAlert]] = {}
    for one in sorted(alerts, key=lambda t: (t.since, t.provider, t.purchase, t.term or "")):
        cloud, _, instance_type = one.provider.split("/", 2)
        move = None if one.effect is None else round(100 * one.effect)
        day = (one.reported_at if second == "reported" else one.last).date()
        key = (one.since.date(), day, cloud, instance_type, one.purchase, one.term, move)
        alike.setdefault(key, []).append(one)
    shown = table(
        title, "since", second, "cloud", "instance type", "purchase", "USD/GPU-hour", "move", "regions", right=("move", "regions")
    )
    for (since, day, cloud, instance_type, purchase, term, _), same in alike.items():
        first = same[0]
        steps = "".join(f" → ({format_amount(price)})" for _, price in first.steps)
        old = "none" if first.old is None else format_amount(first.old)
        shown.add_row(
            str(since),
            str(day),
            cloud,
            instance_type,
            format_price_name(purchase, term),
            f"{old}{steps} → {format_amount(first.new)}" + (" …" if len({t.new for t in same}) > 1 else ""),
            format_change(first.effect) or "–",
            str(len(same)),
        )
    out.print(shown)


def _summary(done: ReplayResult, compared: ReplayEvaluation | None) -> None:
    assert done.first is not None and done.last is not None  # there are readings
    shown = table("Result of the check", "", "count", right=("count",))
    shown.add_row(f"readings of {done.series} prices, {done.first.date()} to {done.last.date()}", str(done.readings))
    shown.add_row("list prices: changes reported", str(len(done.of("changed", spot=False))))
    shown.add_row("list prices: held", str(len(done.of("held", spot=False))))
    if compared is not None:
        counts = compared.counts
        shown.add_row(f"known list-price changes of {format_percent(LIST_MOVE)} or more", str(len(compared.answers)))
        shown.add_row("   reported as a change", str(counts["changed"]))
        shown.add_row("   held for confirmation", str(counts["held"]))
        shown.add_row("   read once before the next move, named in its report", str(counts["on the way"]))
        shown.add_row("   missed", str(counts["missed"]))
        shown.add_row("reported as a change, not known", str(len(compared.invented)))
    if done.raw_spot:
        reported = len(done.of("changed", spot=True)) + len(done.of("held", spot=True))
        shown.add_row("spot prices: moves from one reading to the next", str(done.raw_spot))
        shown.add_row(f"   of {format_percent(LIST_MOVE)} or more", str(done.raw_spot_list))
        shown.add_row(f"   of {format_percent(SPOT_MOVE)} or more", str(done.raw_spot_large))
        shown.add_row("   reported (median of three, against the accepted price)", str(reported))
        shown.add_row("   ignored", format_percent(done.spot_cut))
    out.print(shown)


def _plain_replay(done: ReplayResult, compared: ReplayEvaluation | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "readings": done.readings,
        "prices": done.series,
        "first": done.first,
        "last": done.last,
        "list": {"changed": done.of("changed", spot=False), "held": done.of("held", spot=False)},
        "spot": {
            "moves": done.raw_spot,
            "moves_of_1_percent": done.raw_spot_list,
            "moves_of_15_percent": done.raw_spot_large,
            "changed": done.of("changed", spot=True),
            "held": done.of("held", spot=True),
            "cut": done.spot_cut,
        },
    }
    if compared is not None:
        counts = compared.counts
        data["known"] = {
            "changes": len(compared.answers),
            **{answer.replace(" ", "_"): counts[answer] for answer in ("changed", "held", "on the way", "missed")},
            "invented": compared.invented,
            "missing": [known for known, answer in compared.answers if answer == "missed"],
        }
    return data


if __name__ == "__main__":
    typer.run(main)
