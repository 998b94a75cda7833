"""A decision as plain data: the archive's `detail` and the output of `plumbline decide --json`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pydantic_core import to_jsonable_python

from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision
from plumbline.analysis.prices.book import Quote
from plumbline.declarations import Preference, digest
from plumbline.metrics import METRICS


def decision_detail(decided: TeamDecision) -> dict[str, Any]:
    """Everything about the decision: the question, the ranking with its columns, gates and trials, prices with their basis, what would change it,
    and the cheapest setup of each workload. `inputs` has the same hashes as `inputs_of`. Plain values for JSON; what is unknown is null.
    """
    decision, current = decided.decision, decided.current
    data = {
        "workloads": list(decided.preference.workloads),
        "day": current.day,
        "purchase": current.purchase,
        "simulated": is_simulated(decided),
        "preference": decided.preference.model_dump(mode="json", exclude_defaults=True),
        "inputs": input_hashes(decided),
        "columns": decision.columns,
        "ranking": decision.ranking,
        "note": decision.note,
        "cannot_tell": decision.cannot_tell,
        "comparison": decision.comparison,
        "seed": decision.seed,
        "draws": decision.draws,
        "prices": {name: _price(current, name, quote) for name, quote in decided.prices.items()},
        "campaigns": _campaigns(current),
        "left_out": current.left_out,
        "weight_swings": decided.weight_swings,
        "price_swings": decided.price_swings,
        "cheapest": decided.cheapest,
    }
    plain: dict[str, Any] = to_jsonable_python(data, inf_nan_mode="null")
    return plain


def input_hashes(decided: TeamDecision) -> dict[str, str]:
    """Hashes of what the decision was made from: the `question`, the `trials` that count, their `costs`. All the same: the same decision."""
    current = decided.current
    own = sorted((t for t in current.trials if t.usable), key=lambda t: (t.trial_id, t.attempt))
    money = [{m.metric: m.value for m in t.metrics if METRICS[m.metric].unit == "USD"} for t in own]
    acceptance = {name: [c.text for c in w.acceptance] for name, w in current.workloads.items()}
    return {
        "question": digest({"preference": _question(decided.preference), "purchase": current.purchase, "acceptance": acceptance}),
        "trials": digest([[t.trial_id, t.attempt, t.status] for t in own]),
        "costs": digest(money),
    }


def is_simulated(decided: TeamDecision) -> bool:
    """Whether what counts was simulated; measured and simulated results are never ranked together."""
    return bool(decided.current.simulated)


def _question(preference: Preference) -> dict[str, Any]:
    return preference.model_dump(mode="json", exclude={"groups"})  # how weights were written changes nothing


def _price(current: CurrentResults, provider: str, quote: Quote) -> dict[str, Any]:
    accelerator = current.providers[provider].accelerator
    unit = "core-hour" if accelerator.kind == "cpu" else "GPU-hour"
    if quote.basis is None:
        return {"usd_per_hour": None, "usd_per_unit": None, "unit": unit, "since": None, "source": None, "unknown": quote.reason}
    usd = quote.basis.usd_per_hour
    return {
        "usd_per_hour": usd,
        "usd_per_unit": usd / accelerator.count,
        "unit": unit,
        "since": quote.basis.since,
        "source": quote.basis.source,
    }


def _campaigns(current: CurrentResults) -> dict[str, list[str]]:
    by_provider: dict[str, set[str]] = defaultdict(set)
    for (provider, _), campaign in current.campaigns.items():
        by_provider[provider].add(campaign)
    return {provider: sorted(campaigns) for provider, campaigns in sorted(by_provider.items())}
