"""Why a team's first choice moved, for its finding: the largest part of the lead's move (`why_moved`), and what else is new of the two providers.

Where the two stored decisions do not say it, what they rest on does: a price alone, or new results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plumbline.analysis.decisions.decision_record import DecisionDocument, PriceAtDecision
from plumbline.analysis.decisions.winner_change import Scatter, Why, explain_change, why_moved, why_not_eligible
from plumbline.metrics.formatting import format_change, format_money_change, join_words
from plumbline.results.finding import FindingKind, PriceMove
from plumbline.words.price_change import price_cause
from plumbline.words.winner_change import WITHIN_NOISE, part_text


@dataclass(frozen=True)
class MoveCause:
    """`provider`: whose price or speed moved the choice, by `effect` (a fraction, of a price); None where none is shown to have. `short`: the
    reasons for a headline. `moves`: of that price, and of the other regions of its cloud that took the same change."""

    kind: FindingKind
    reasons: tuple[str, ...]
    short: tuple[str, ...]
    provider: str | None = None
    effect: float | None = None
    moves: tuple[PriceMove, ...] = ()

    @property
    def text(self) -> str:
        return f"because {join_words(self.reasons)}"


def cause_of_move(
    before: DecisionDocument, now: DecisionDocument, clouds: Mapping[str, str], scatter: tuple[Scatter, Scatter]
) -> MoveCause:
    """By the parts of the lead's move; by what the two decisions rest on where these are not known."""
    change = explain_change(before, now, scatter)
    why = Why("unknown") if change is None else why_moved(change)
    same_trials = bool(before.inputs and now.inputs and before.inputs.trials == now.inputs.trials)
    news = [] if same_trials else _news(before, now)
    if why.largest is not None and why.largest.cause == "price":
        return _price_cause(before, now, clouds, why.largest.provider, news)
    if same_trials:
        mover = _mover(before, now, _moved_prices(before, now))
        text = "the cost calculation changed"
        return MoveCause("price", (text,), (text,)) if mover is None else _price_cause(before, now, clouds, mover, [])
    pair = () if change is None else (change.new, change.old)
    parts, prices = [part_text(part, pair) for part in why.parts[:2]], _prices(before, now, now.first_name)
    match why.shown:
        case "part":
            return MoveCause("performance", _first_ones([parts[0], *news, *prices]), (parts[0],), why.parts[0].provider or None)
        case "close":
            apart = f"{join_words(parts)}, which cannot be distinguished"
            return MoveCause("performance", _first_ones([apart, *news]), (apart,))
        case "unproven":
            text = f"{parts[0]}, not distinguished from noise"
            return MoveCause("performance", _first_ones([text, *news, *prices]), (text,), why.parts[0].provider or None)
        case "noise":
            return MoveCause("performance", _first_ones([WITHIN_NOISE, *news, *prices]), (WITHIN_NOISE,))
        case _:
            found = _first_ones([*why_not_eligible(before, now), *news])
            return MoveCause("performance", _first_ones([*found, *prices]), found)


def _moved_prices(before: DecisionDocument, now: DecisionDocument) -> list[str]:
    """Providers whose price differs, the new first and the old one in front."""
    order = [name for name in (now.first_name, before.first_name) if name is not None]
    return [
        name
        for name in dict.fromkeys([*order, *sorted({*now.prices, *before.prices})])
        if name in before.prices and name in now.prices and before.prices[name].usd_per_unit != now.prices[name].usd_per_unit
    ]


def _prices(before: DecisionDocument, now: DecisionDocument, leading: str | None) -> list[str]:
    """Each price that moved, in words, that of `leading` in front."""
    moved = sorted(_moved_prices(before, now), key=lambda name: name != leading)
    return [_price(name, before.prices[name], now.prices[name], its=name == now.first_name) for name in moved]


def _price_cause(before: DecisionDocument, now: DecisionDocument, clouds: Mapping[str, str], mover: str, news: Sequence[str]) -> MoveCause:
    """The price of one provider, and of the regions of its cloud that took the same change."""
    was, has = before.prices[mover], now.prices[mover]
    reasons = _first_ones([*_prices(before, now, mover), *news])
    if not (effect := _price_effect(was, has)):
        return MoveCause("price", reasons, (_price(mover, was, has, its=False),), mover, effect)
    since = has.since.isoformat() if has.since else None
    cloud = clouds.get(mover, mover)
    alike = [
        name
        for name in sorted(_moved_prices(before, now))
        if clouds.get(name, name) == cloud
        and now.prices[name].since == has.since
        and format_change(_price_effect(before.prices[name], now.prices[name])) == format_change(effect)
    ]
    hourly = ((name, before.prices[name].usd_per_hour, now.prices[name].usd_per_hour) for name in alike)
    moves = tuple(PriceMove(name, old, new) for name, old, new in hourly if old is not None and new is not None)
    short = price_cause(cloud if len(alike) > 1 else mover, effect, since)
    return MoveCause("price", reasons, (short,), mover, effect, moves)


def _news(before: DecisionDocument, now: DecisionDocument) -> list[str]:
    """What is new of the two providers between which the choice moved: another one's results move neither. Of all that were eligible, where
    none is."""
    news: dict[str, list[str]] = {}
    others = [] if now.first else [r.provider for r in before.eligible]
    for name in dict.fromkeys(filter(None, (now.first_name, before.first_name, *others))):
        was_in, has_in = before.campaigns.get(name, ()), now.campaigns.get(name, ())
        if has_in and has_in != was_in:
            fresh = [c for c in has_in if c not in was_in] or [*has_in]
            news.setdefault(f"{'' if was_in else 'first '}results of campaign {join_words(fresh)}", []).append(name)
        elif was_in and not has_in:
            news.setdefault("no current results", []).append(name)
    said = [f"{join_words(own)} {'has' if len(own) == 1 else 'have'} {what}" for what, own in news.items()]
    return said or ["results were corrected"] * (not why_not_eligible(before, now))


def _first_ones(reasons: Sequence[str]) -> tuple[str, ...]:
    """At most three, and how many more."""
    return (*reasons[:3], f"{len(reasons) - 3} more") if len(reasons) > 3 else tuple(reasons)


def _mover(before: DecisionDocument, now: DecisionDocument, moved: Sequence[str]) -> str | None:
    """The provider whose price explains the change best: the new first one got cheaper or the former one dearer, whichever moved further."""

    def towards(name: str) -> float:
        was, has = before.prices[name].usd_per_unit, now.prices[name].usd_per_unit
        if not was or not has:
            return 0.0
        fell = math.log(was / has)
        return fell if name == now.first_name else -fell if name == before.first_name else 0.0

    return max(moved, key=towards, default=None)


def _price_effect(was: PriceAtDecision, has: PriceAtDecision) -> float | None:
    return has.usd_per_unit / was.usd_per_unit - 1 if has.usd_per_unit is not None and was.usd_per_unit else None


def _price(name: str, was: PriceAtDecision, has: PriceAtDecision, its: bool) -> str:
    whose, old, new = "its" if its else f"{name}'s", was.usd_per_unit, has.usd_per_unit
    if old is None or new is None:
        return f"{whose} price became {'known' if old is None else 'unknown'}"
    since = f" on {has.since}" if has.since else ""
    return f"{whose} price {'fell' if new < old else 'rose'} {format_money_change(old, new, f'USD/{has.unit}')}{since}"
