"""`plumbline prices replay`: a history of prices through the check, as if the days passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from plumbline.cli.output import FAILED, Json, clear_errors, emit, fail, out, table
from plumbline.drift.price import what
from plumbline.drift.wording import percent
from plumbline.prices.check import LIST_MOVE, SPOT_MOVE
from plumbline.prices.known_changes import Compared, compare, known_changes
from plumbline.prices.reading import Reading
from plumbline.prices.replay import Replayed, Told, replay
from plumbline.prices.sources.csv_history import HistoryError, history


def replay_prices(
    file: Annotated[Path, typer.Argument(help="CSV: date, provider, region, instance_type, gpu, gpus, purchase, usd_per_gpu_hour")],
    events: Annotated[Path | None, typer.Option(help="CSV of known changes, to count what was found, missed and invented")] = None,
    provider: Annotated[
        str | None, typer.Option(help="only this one: aws, gcp/us-central1 or azure/eastus2/Standard_ND96isr_H100_v5")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a history of prices through the check: what would have been told, held and left in peace.

    Nothing is stored. Each confirmed change is accepted at once, what is held never is. With --events the exit code is 1 if a known
    list-price change of 1 % or more is missed, or one is told that nobody knows.
    """
    with clear_errors(HistoryError):
        done = replay(_only(history(file), provider))
        compared = None
        if events is not None:
            compared = compare(done, [k for k in known_changes(events) if _concerns(k.provider, provider)])
    if not done.readings:
        fail(f"{file} has no price of {provider}" if provider else f"{file} has no prices; expected at least one row")

    def show() -> None:
        _show("List prices that changed (in brackets: read once on the way)", done.of("changed", spot=False), "told")
        _show("Held for confirmation, never used", [*done.of("held", spot=False), *done.of("held", spot=True)], "until")
        _summary(done, compared)

    emit(as_json, _plain(done, compared), show)
    if compared is not None and (compared.invented or compared.counts["missed"]):
        raise typer.Exit(FAILED)


def _only(readings: Iterator[Reading], provider: str | None) -> Iterator[Reading]:
    return (r for r in readings if _concerns(r.provider, provider))


def _concerns(name: str, provider: str | None) -> bool:
    return provider is None or name == provider or name.startswith(f"{provider.rstrip('/')}/")


def _show(title: str, told: Sequence[Told], second: Literal["told", "until"]) -> None:
    """One row for all regions of an instance type whose price moved alike on one day; `second`: the day on which it was told, or read last."""
    if not told:
        return
    alike: dict[tuple[Any, ...], list[Told]] = {}
    for one in sorted(told, key=lambda t: (t.since, t.provider, t.purchase, t.term or "")):
        cloud, _, instance_type = one.provider.split("/", 2)
        move = None if one.effect is None else round(100 * one.effect)
        day = (one.told_at if second == "told" else one.last).date()
        key = (one.since.date(), day, cloud, instance_type, one.purchase, one.term, move)
        alike.setdefault(key, []).append(one)
    shown = table(
        title, "since", second, "cloud", "instance type", "purchase", "USD/GPU-hour", "move", "regions", right=("move", "regions")
    )
    for (since, day, cloud, instance_type, purchase, term, _), same in alike.items():
        first = same[0]
        steps = "".join(f" → ({price:.2f})" for _, price in first.steps)
        old = "none" if first.old is None else f"{first.old:.2f}"
        shown.add_row(
            str(since),
            str(day),
            cloud,
            instance_type,
            what(purchase, term),
            f"{old}{steps} → {first.new:.2f}" + (" …" if len({t.new for t in same}) > 1 else ""),
            "–" if first.effect is None else percent(first.effect),
            str(len(same)),
        )
    out.print(shown)


def _summary(done: Replayed, compared: Compared | None) -> None:
    assert done.first is not None and done.last is not None  # there are readings
    shown = table("What the check made of it", "", "count", right=("count",))
    shown.add_row(f"readings of {done.series} prices, {done.first.date()} to {done.last.date()}", str(done.readings))
    shown.add_row("list prices: changes told", str(len(done.of("changed", spot=False))))
    shown.add_row("list prices: held", str(len(done.of("held", spot=False))))
    if compared is not None:
        counts = compared.counts
        shown.add_row(f"known list-price changes of {LIST_MOVE:.0%} or more", str(len(compared.answers)))
        shown.add_row("   told as a change", str(counts["changed"]))
        shown.add_row("   held, as they should not be believed at once", str(counts["held"]))
        shown.add_row("   read once before the next move, named in what was told then", str(counts["on the way"]))
        shown.add_row("   missed", str(counts["missed"]))
        shown.add_row("told as a change, known to nobody (invented)", str(len(compared.invented)))
    if done.raw_spot:
        told = len(done.of("changed", spot=True)) + len(done.of("held", spot=True))
        shown.add_row("spot prices: moves from one reading to the next", str(done.raw_spot))
        shown.add_row(f"   of {LIST_MOVE:.0%} or more", str(done.raw_spot_list))
        shown.add_row(f"   of {SPOT_MOVE:.0%} or more", str(done.raw_spot_large))
        shown.add_row("   told (median of three, against what was accepted last)", str(told))
        shown.add_row("   left in peace", f"{done.spot_cut:.0%}")
    out.print(shown)


def _plain(done: Replayed, compared: Compared | None) -> dict[str, Any]:
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
