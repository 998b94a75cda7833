"""Numbers with a name, alike on a report's cover, in mails, on the overview and the command line; and what is lost and could be saved a month."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plumbline.analysis.campaign_data import MonthlyTotal
from plumbline.analysis.decisions.savings import Savings
from plumbline.findings.compared import Compared
from plumbline.metrics.formatting import format_count, format_money, format_percent
from plumbline.words.decisions import cheapest_text

_DECLARE = "declare monthly volumes (alerts.yaml)"
_DECLARE_PLACE = f"declare current in teams/*.yaml, or {_DECLARE.removeprefix('declare ')}"


@dataclass(frozen=True)
class Tile:
    """One number. `note`: what it covers, or why it is unknown. `link`: a path of the pages, with `in_airflow` one of Airflow."""

    name: str
    value: str
    note: str
    link: str = ""
    tone: Literal["", "good", "warn", "bad"] = ""
    in_airflow: bool = False


def lost_tile(month: MonthlyTotal, compared: Compared | None = None) -> Tile:
    """The cost of open findings a month at the declared volumes; gains are named and not subtracted. `compared`: None where it is not asked."""
    link = "/findings?state=open"
    if not month.known:
        note = f"{format_count(month.unknown, 'finding')} without an amount: {_DECLARE}" if month.unknown else "no open finding costs money"
        if month.unknown or compared is None:
            return Tile("Lost a month", "unknown" if month.unknown else "0 USD", note, link)
        if not compared.n:
            return Tile("Lost a month", "not known", compared.missing, link)
        gap = f"; {compared.missing}" if compared.missing else ""
        return Tile("Lost a month", "0 USD", f"{note}{gap}", link, "" if gap else "good")
    count, gains = format_count(month.known, "finding"), f"; others save {format_money(month.saved)}"
    rest = f"{gains if month.saved and month.lost else ''}{f'; {month.unknown} without an amount' if month.unknown else ''}"
    if month.saved and not month.lost:
        return Tile("Saved a month", format_money(month.saved), f"{count}{rest}", link, "good")
    return Tile("Lost a month", format_money(month.lost), f"{count}{rest}", link, "bad" if month.lost else "")


def saving_tile(savings: Savings | None) -> Tile:
    """The savings of all moves, and the largest one; without volumes as a share of the cost. `savings`: None without a decision."""
    if savings is None:
        return Tile("Could be saved", "–", "no decision", "/decisions")
    if not savings.placed:
        return Tile("Could be saved", "not known", f"no team has declared where it runs: {_DECLARE_PLACE}", "/decisions")
    moves = savings.moves
    if not moves:
        some = savings.placed < savings.of
        note = (
            f"of {savings.placed} of {savings.of} choices; where the others run is not known"
            if some
            else "each runs at its cheapest sufficient provider"
        )
        return Tile("Could be saved", "0 USD", note, "/decisions", "" if some else "good")
    best = moves[0]
    note, link = f"{best.workload}: {best.provider} → {best.to}{cheapest_text(best.probability)}", f"/workloads/{best.workload}"
    if not best.usd:
        return Tile("Could be saved", f"{format_percent(best.saving)}", f"of the cost: {note}. For USD {_DECLARE}", link, "warn")
    most = f"a month; most ({format_percent(best.saving)} less): {note}"
    return Tile("Could be saved", format_money(sum(m.usd for m in moves)), most, link, "warn")
