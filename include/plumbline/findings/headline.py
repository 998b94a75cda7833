"""A finding's headline, the same on every surface: what caused it, what follows, and what it costs a month.

Severity, state and simulation are beside it, never in it. What each type says is in its file of `findings.types`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from plumbline.findings.types import type_of
from plumbline.findings.types.price_change import PriceFinding
from plumbline.metrics.formatting import format_monthly_change, join_words, shorten
from plumbline.results.finding import ChoiceMove, Finding

_MOST_TARGETS = 2
"""New first choices that are named: with the provider that caused the move three names."""


def headline(finding: Finding, usd: float | None = None, credit: float | None = None, claim: str = "") -> str:
    """One line, such as `p5 raised its price 30 % on 1 September 2026, about 1,200 USD a month more: product moves to p4`.

    `usd`: more a month, negative if less; `credit`: in USD, once, of a broken promise. None where it is unknown or not for the reader. A
    monthly amount is what the cause costs: beside a cause that moves choices it stands before them, because moving does not cost it. A choice
    that only leads is no move: without a cause its line has no amount. `claim`: what trials prove broken and can be claimed with the finding; it
    is a clause of its own, because it is paid once.
    """
    line = _without_claim(finding, usd, credit)
    return f"{line}; {claim}" if claim else line


def _without_claim(finding: Finding, usd: float | None, credit: float | None) -> str:
    cause = cause_of(finding)
    consequence = _moves(finding.moves) if finding.moves else type_of(finding).consequence(finding, bool(cause))
    money = f", {format_monthly_change(usd)}" if usd else ""
    if cause and finding.moves:
        return f"{cause}{money}: {consequence}"
    line = f"{cause}: {consequence}" if cause and consequence else cause or consequence
    if worth := type_of(finding).worth(finding, credit):
        line = f"{line}: {worth}"
    only_leads = bool(finding.moves) and not any(move.clear and not move.stays for move in finding.moves)
    return line if only_leads else f"{line}{money}"


_Line = TypeVar("_Line")


def one_per_headline(lines: Iterable[tuple[str, _Line]]) -> dict[str, list[_Line]]:
    """Findings grouped by headline, in order: first choices that one cause moved share one."""
    stories: dict[str, list[_Line]] = {}
    for text, line in lines:
        stories.setdefault(text, []).append(line)
    return stories


def is_price_change(finding: Finding) -> bool:
    """Whether it is a provider's changed price: neither a held one nor a first choice that a price moved."""
    return PriceFinding.has(finding) and finding.effect is not None


def cause_of(finding: Finding) -> str:
    """The change in words; empty if nothing recorded explains the finding."""
    return type_of(finding).cause(finding)


def _moves(moves: Sequence[ChoiceMove]) -> str:
    """`product moves to p4, platform to p6`, `p4 leads for product` where that is no clear winner, and `product stays on p4` where it runs there:
    the choices by their new first; teams with several choices name the kind."""
    by_target: dict[tuple[str | None, bool, bool, bool], list[str]] = {}
    kinds = {move.team: {other.kind for other in moves if other.team == move.team} for move in moves}
    for move in moves:
        who = f"{move.team} ({move.kind})" if len(kinds[move.team]) > 1 else move.team
        teams = by_target.setdefault((move.after, move.before is None, move.clear, move.stays), [])
        if who not in teams:
            teams.append(who)
    parts: list[str] = []
    verbs = 0
    for (after, first, clear, stays), teams in list(by_target.items())[:_MOST_TARGETS]:
        one, who = len(teams) == 1, shorten(teams) if len(teams) > 3 else join_words(teams)
        if after is None:
            parts.append(f"no provider is eligible for {who}")
        elif not clear:
            parts.append(f"{after} leads for {who}")
        elif stays:
            parts.append(f"{who} {'stays' if one else 'stay'} on {after}")
        elif first:
            parts.append(f"{who} {'chooses' if one else 'choose'} {after}")
        else:
            parts.append(f"{who} to {after}" if verbs else f"{who} {'moves' if one else 'move'} to {after}")
            verbs += 1
    more = len(by_target) - _MOST_TARGETS
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")
