"""The document of a live decision: what a run stores, with every reason in words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from plumbline.analysis.decisions.cheapest import Cheapest, Setup
from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.decision_record import OWN_COLUMNS, DecisionDocument, PriceAtDecision, input_hashes
from plumbline.analysis.prices.book import Quote
from plumbline.words.comparisons import comparison_in_words
from plumbline.words.criteria import explanation_text
from plumbline.words.decisions import note_text, setup_texts, why_not_texts


def ranking_document(decided: TeamDecision, listed: TeamDecision | None = None) -> DecisionDocument:
    """A live decision without what takes long: what would change it, and the cheapest setups. `listed`: among those that rank first."""
    current, excerpt = decided.current, listed or decided
    decision = decision_in_words(excerpt.decision)
    return DecisionDocument(
        **{name: getattr(decision, name) for name in Decision.__dataclass_fields__},
        day=current.day,
        purchase=current.purchase,
        simulated=bool(current.simulated),
        preference=decided.preference.model_dump(mode="json", exclude_defaults=True),
        inputs=input_hashes(decided),
        prices={name: _price(current, name, quote) for name, quote in excerpt.prices.items()},
        campaigns=_campaigns(current),
        left_out=current.left_out,
    )


def decision_document(decided: TeamDecision, listed: TeamDecision | None = None) -> DecisionDocument:
    """A live decision. `listed`: the same among the providers that rank first, for an excerpt: price sensitivity takes long with
    hundreds."""
    return replace(
        ranking_document(decided, listed),
        weight_swings=decided.weight_swings,
        price_swings=(listed or decided).price_swings,
        cheapest=tuple(map(_cheapest_in_words, decided.cheapest)),
    )


def decision_detail(document: DecisionDocument) -> dict[str, Any]:
    """The document as the archive keeps it: plain values for JSON; what is unknown is null."""
    plain: dict[str, Any] = to_jsonable_python(document, exclude=OWN_COLUMNS, inf_nan_mode="null")
    return plain


def decision_in_words(decision: Decision) -> Decision:
    """The same decision with its note, its reasons and its comparison as text, for JSON."""
    return replace(
        decision,
        note=note_text(decision.note),
        ranking=tuple(replace(each, why_not=why_not_texts(each)) for each in decision.ranking),
        comparison=comparison_in_words(decision.comparison),
    )


def _cheapest_in_words(cheapest: Cheapest) -> Cheapest:
    return replace(cheapest, note=note_text(cheapest.note), setups=tuple(map(_setup_in_words, cheapest.setups)))


def _setup_in_words(setup: Setup) -> Setup:
    missed = tuple(replace(each, explanation=explanation_text(each.explanation)) for each in setup.missed)
    return replace(setup, missed=missed, why_not=setup_texts(setup))


def _price(current: CurrentResults, provider: str, quote: Quote) -> PriceAtDecision:
    accelerator = current.providers[provider].accelerator
    unit = "core-hour" if accelerator.kind == "cpu" else "GPU-hour"
    if quote.basis is None:
        return PriceAtDecision(unit=unit, unknown=quote.reason)
    usd = quote.basis.usd_per_hour
    return PriceAtDecision(usd, usd / accelerator.count, unit, quote.basis.since, quote.basis.source)


def _campaigns(current: CurrentResults) -> dict[str, tuple[str, ...]]:
    by_provider: dict[str, set[str]] = defaultdict(set)
    apart = {t.provider for t in current.trials if t.apart}
    for (provider, _), campaign in current.campaigns.items():
        if provider not in apart:
            by_provider[provider].add(campaign)
    return {provider: tuple(sorted(campaigns)) for provider, campaigns in sorted(by_provider.items())}
