"""Why a first choice moved, in words: the largest part of the waterfall, or why none is shown to be it."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.analysis.decisions.winner_change import LeadPart, WinnerChange, why_moved
from plumbline.metrics.formatting import format_change, format_name, join_words
from plumbline.words.price_change import price_cause

WITHIN_NOISE = "no part of the change exceeds the repeats' noise"


def part_text(part: LeadPart, pair: Sequence[str] = ()) -> str:
    """What moved, such as `aurora's time to first token fell 12 % on chat`. `pair`: the two providers, of a part that is of both."""
    what, on = format_name(part.metric), f" on {part.workload}"
    if part.cause == "weights":
        return f"the declared weight of {what}{on} changed"
    if not part.provider or part.change is None:
        return f"{what}{on}{f' of {join_words(pair)}' if pair else ''} moved"
    size, more = format_change(part.change)[1:], part.change > 0
    if part.cause == "price":
        return price_cause(part.provider, part.change, part.since.isoformat() if part.since else None)
    if part.cause == "speed" and what.startswith("cost"):
        return f"an hour of {part.provider} delivers {size} {'more' if more else 'less'}{on}"
    return f"{part.provider}'s {what} {'rose' if more else 'fell'} {size}{on}"


def why_sentence(change: WinnerChange) -> str:
    """Why the new first is first instead of the old one, without a full stop."""
    why, pair = why_moved(change), (change.new, change.old)
    parts = [f"{part_text(p, pair)} ({points_text(p.points)} points)" for p in why.parts[:2]]
    match why.shown:
        case "part":
            others = len(why.parts) - 1
            more = f"; {others} smaller {'part' if others == 1 else 'parts'} did too" if others else ""
            return f"the largest part: {parts[0]} of the lead's {points_text(why.move)}{more}"
        case "eligibility":
            return join_words(why.reasons)
        case "noise":
            return f"nothing is shown to have moved: {WITHIN_NOISE}"
        case "close":
            return f"not shown which part is the largest: {parts[0]} and {parts[1]} cannot be distinguished; more repeats would decide it"
        case "unproven":
            return f"not shown: {parts[0]} is the largest part, and its repeats do not distinguish it from noise; two repeats of each would"
        case "unknown":
            return "not shown: the numbers of one of the two decisions are not stored"


def points_text(points: float) -> str:
    """A part of a lead, a logarithm, as about percent: `+1.2`."""
    return f"{100 * points:+.1f}".replace("-", "−")
