"""The class of a comparison, and what limits it, in words."""

from __future__ import annotations

from dataclasses import replace

from plumbline.analysis.scorecards.comparison_class import MOST_NAMED, ComparisonClass, CostIncludes, ExpectedRestarts, Limitation
from plumbline.metrics.names import names_by_text
from plumbline.words.costs import interruptions_text


def comparison_line(comparison: ComparisonClass) -> str:
    """All of it in one line; empty if there is nothing to say."""
    parts = []
    if comparison.kind is not None:
        differences = ": " + ", ".join(comparison.differences) if comparison.differences else ""
        parts.append(f"Comparison class: {comparison.kind}{differences}.")
    return " ".join([*parts, *(f"{limitation_text(each)}." for each in comparison.limitations)])


def comparison_in_words(comparison: ComparisonClass) -> ComparisonClass:
    """The same with a sentence for each limitation, as it is stored."""
    return replace(comparison, limitations=tuple(replace(each, text=limitation_text(each)) for each in comparison.limitations))


def limitation_text(limitation: Limitation) -> str:
    """A limitation in a sentence without a full stop."""
    match limitation.text:
        case ExpectedRestarts(rates):
            named = names_by_text((provider, interruptions_text(rate)) for provider, rate in rates)
            some = (f"{rate}: {', '.join(who) if len(who) <= MOST_NAMED else f'{len(who)} providers'}" for rate, who in named.items())
            return f"Cost includes expected restarts and repeated work of {'; '.join(some)}"
        case CostIncludes():
            return limitation.text.sentence
        case text:
            return text
