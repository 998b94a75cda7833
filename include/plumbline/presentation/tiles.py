"""Numbers with a name, alike on a report's cover, in mails, on the overview and the command line; and what is lost and could be saved a month."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plumbline.analysis.campaign_data import MonthlyTotal
from plumbline.analysis.decisions.savings import Savings
from plumbline.findings.compared import Compared
from plumbline.metrics.formatting import capitalize_first, format_count, format_money, format_percent
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


def money_sentences(month: MonthlyTotal) -> tuple[str, ...]:
    """What the open findings lose a month, what others save, and what is simulated beside them, a sentence each; empty without any."""
    if month.costly or not month.unknown:
        lost = f"{format_money(month.lost)} lost a month by {_findings(month)}" if month.costly else ""
    else:
        lost = f"cost a month unknown: {format_count(month.unknown, 'finding')} without a price"
    return tuple(filter(None, (lost, _saved(month, "other " if lost else "") if month.saved else "", *_beside(month), _apart(month))))


def _findings(month: MonthlyTotal) -> str:
    """What the sum counts, and beside it what it does not."""
    return f"{format_count(month.costly, 'finding')}{f' and {month.unknown} without a price' if month.unknown else ''}"


def _saved(month: MonthlyTotal, other: str = "") -> str:
    return f"{format_money(month.saved)} saved a month by {format_count(month.gains, f'{other}finding')}"


def _beside(month: MonthlyTotal) -> tuple[str, ...]:
    """What can be claimed once, and what ends: in no sum of what is lost or saved."""
    claims = endings = ""
    if month.claims:
        known = format_money(month.to_claim) if month.claims > month.claims_unknown else ""
        unknown = f"{format_count(month.claims_unknown, 'credit')} of unknown amount" if month.claims_unknown else ""
        amount = " and ".join(filter(None, (known, unknown)))
        amount += f" in {format_count(month.claims, 'claim')}" if known else ""
        until = f", {'' if month.claims == 1 else 'the first '}until {month.claim_until}" if month.claim_until else ""
        claims = f"to claim once: {amount}{until}"
    if month.endings:
        verb, on = ("ends", "") if month.endings == 1 else ("end", "the first ")
        endings = f"{format_count(month.endings, 'reservation')} {verb}, {on}on {month.ends_on}: {format_money(month.reserved)} a month is paid now"
    return tuple(filter(None, (claims, endings)))


def _apart(month: MonthlyTotal) -> str:
    return f"simulated and in no sum: {format_money(month.apart)} a month" if month.apart else ""


def lost_tile(month: MonthlyTotal, compared: Compared | None = None) -> Tile:
    """The cost of open findings a month at the declared volumes; what others save is a sentence of its own. `compared`: None where it is
    not asked."""
    value, note = format_money(month.lost) if month.lost else "0 USD", "no open finding costs money"
    tone: Literal["", "good", "bad"] = "good" if month.saved else ""
    if month.unknown and not month.costly:
        value, note, tone = "unknown", f"{format_count(month.unknown, 'finding')} without a price: {_DECLARE}", ""
    elif month.costly:
        note, tone = _findings(month), "bad" if month.lost else ""
    elif compared is not None and not month.saved:
        value, note = (
            (value, f"{note}{f'; {compared.missing}' if compared.missing else ''}") if compared.n else ("not known", compared.missing)
        )
        tone = "" if compared.missing else "good"
    more = (_saved(month, "other ") if month.saved else "", *_beside(month), _apart(month))
    sentences = (note, *(capitalize_first(text) for text in more if text))
    return Tile("Lost a month", value, ". ".join(sentences), "/findings", tone)


def saving_tile(savings: Savings | None) -> Tile:
    """The savings of all moves, and the largest one; without volumes as a share of the cost. `savings`: None without a decision."""
    if savings is None:
        return Tile("Could be saved", "–", "no decision", "/decisions")
    if not savings.placed:
        return Tile("Could be saved", "not known", f"no team has declared or accepted where it runs: {_DECLARE_PLACE}", "/decisions")
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
    gap = f" and {unpriced} without a price" if (unpriced := sum(not m.usd for m in moves)) else ""
    most = f"a month by {format_count(len(moves) - unpriced, 'move')}{gap}; most ({format_percent(best.saving)} less): {note}"
    return Tile("Could be saved", format_money(sum(m.usd for m in moves)), most, link, "warn")
