"""Exported tables of decisions: rankings, values, gates, sensitivity, cheapest setups."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.decisions.decision import Decision
from plumbline.metrics import METRICS
from plumbline.presentation.tables.columns import (
    CAMPAIGN,
    KIND,
    METRIC,
    PLACE,
    TRIALS,
    UNIT,
    WORKLOAD,
    N,
    Row,
    Table,
    count,
    flag,
    number,
    text,
)

_DECISION = (CAMPAIGN, text("team", "the team"), KIND, text("workloads", "the workloads that were weighed, separated by spaces"))


def _decision_columns(decision: Decision, found: Conclusions) -> Row:
    return {
        "campaign": found.campaign.campaign_id,
        "team": decision.team,
        "kind": decision.kind,
        "workloads": " ".join(decision.workloads),
    }


def _decisions(found: Conclusions) -> Iterator[Row]:
    for decision in found.decisions:
        for place, ranked in enumerate(decision.ranking, start=1):
            yield {
                **_decision_columns(decision, found),
                **vars(ranked),
                "place": place if ranked.eligible else None,
                "why_not": "; ".join(ranked.why_not),
                "note": decision.note,
                "cannot_tell": decision.cannot_tell,
                "seed": decision.seed,
                "draws": decision.draws,
                "trials": " ".join(ranked.trials),
            }


def _values(found: Conclusions) -> Iterator[Row]:
    for decision in found.decisions:
        for ranked in decision.ranking:
            for i, column in enumerate(decision.columns):
                worth = None if ranked.ratios is None else ranked.ratios[i]
                own = {"provider": ranked.provider, "value": ranked.values[i], "worth": worth}
                yield {**_decision_columns(decision, found), **vars(column), **own}


def _gates(found: Conclusions) -> Iterator[Row]:
    for decision in found.decisions:
        for ranked in decision.ranking:
            for gate in ranked.gates:
                yield {**_decision_columns(decision, found), **vars(gate), "provider": ranked.provider, "gate": gate.text}


def _sensitivity(found: Conclusions) -> Iterator[Row]:
    for decided in found.decided:
        own = _decision_columns(decided.decision, found)
        for swing in decided.weight_swings:
            for end, flip in (("below", swing.below), ("above", swing.above)):
                at, first = (None, None) if flip is None else (flip.weight, flip.first)
                yield {
                    **own,
                    "lever": "weight",
                    "of": swing.metric,
                    "end": end,
                    "now": swing.weight,
                    "at": at,
                    "unit": "ratio",
                    "first": first,
                }
        for price in decided.price_swings:
            for end, moved in (("below", price.falls), ("above", price.rises)):
                at, first = (None, None) if moved is None else (moved.usd_per_hour, moved.first)
                now = price.usd_per_hour
                yield {**own, "lever": "price", "of": price.provider, "end": end, "now": now, "at": at, "unit": "USD/h", "first": first}


def _cheapest(found: Conclusions) -> Iterator[Row]:
    for decided in found.decided:
        for answer in decided.cheapest:
            for setup in answer.setups:
                yield {
                    **_decision_columns(decided.decision, found),
                    **vars(setup),
                    "workload": answer.workload,
                    "metric": answer.metric,
                    "phase": phase_of(answer.metric),
                    "unit": METRICS[answer.metric].unit,
                    "requirements": "; ".join(answer.requirements),
                    "why_not": "; ".join(setup.why_not),
                    "trials": " ".join(setup.trials),
                }


DECISION_TABLES = {
    "decisions": Table(
        "each team's ranking of the providers",
        (
            *_DECISION,
            count("place", "rank; empty for a provider that is not eligible"),
            *PLACE,
            flag("eligible", "whether it passes every gate and was measured on every weighted metric"),
            number("score", "weighted score, 1 is best at everything", unit="ratio"),
            number("probability_first", "share of the draws in which it is first; empty: cannot be computed", unit="ratio"),
            count("n", "usable repeats behind the number that has the fewest"),
            text("why_not", "why it is not eligible"),
            text("note", "what this decision cannot say"),
            text("cannot_tell", "no_sweep: a cost is weighed that only a sweep shows, and no trial has one; else empty"),
            count("seed", "seed of the draws"),
            count("draws", "how often the campaign was redrawn"),
            TRIALS,
        ),
        _decisions,
    ),
    "decision_values": Table(
        "the weighted numbers that the rankings are made of",
        (
            *_DECISION,
            *PLACE,
            WORKLOAD,
            *METRIC,
            number("weight", "share of the score", unit="ratio"),
            number("value", "median over usable repeats; empty: not measured", of="unit"),
            UNIT,
            number("worth", "what the value function makes of it, 1 is best", unit="ratio"),
            text("valued", "the value function as declared"),
        ),
        _values,
    ),
    "gates": Table(
        "hard gates, provider by provider",
        (
            *_DECISION,
            *PLACE,
            WORKLOAD,
            text("gate", "the gate as it was declared"),
            number("value", "median over usable repeats; empty: not measured", of="unit"),
            number("limit", "the declared limit", of="unit"),
            UNIT,
            flag("passed", "not measured is not passed"),
        ),
        _gates,
    ),
    "sensitivity": Table(
        "at which weight and at which price of an instance another provider is first",
        (
            *_DECISION,
            text("lever", "weight or price"),
            text("of", "the metric that is weighed, or the provider whose price moves"),
            text("end", "below or above what it is now"),
            number("now", "the declared weight, or today's price", of="unit"),
            number("at", "where the first place changes; empty: nowhere on that side", of="unit"),
            UNIT,
            text("first", "who is first beyond it"),
        ),
        _sensitivity,
    ),
    "cheapest": Table(
        "what an outcome costs at each provider, and whether it keeps what is asked",
        (
            *_DECISION,
            WORKLOAD,
            *PLACE,
            flag("meets", "whether it is shown to keep all that is asked"),
            text("metric", "what the cost is of"),
            text("phase", "sweep: at the highest rate that keeps the SLO; else steady"),
            number("cost", "median over usable repeats; empty: not known", of="unit"),
            number("low", "lower end of the interval", of="unit"),
            number("high", "upper end of the interval", of="unit"),
            number("coverage", "the interval's true confidence", unit="ratio"),
            UNIT,
            number("probability_cheapest", "among those that keep what is asked; empty: cannot be computed", unit="ratio"),
            text("requirements", "what is asked, as declared"),
            text("why_not", "what it does not keep, or is not shown to"),
            N,
            TRIALS,
        ),
        _cheapest,
    ),
}
