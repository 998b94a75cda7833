"""Rows of the exported tables, each a mapping of at least the columns that `tables.toml` names: unrounded numbers, None where unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.analysis.scorecards.references import reference_shares
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.analysis.trial_sample import TrialSample
from plumbline.metrics import METRICS
from plumbline.presentation.cost_forecasts import cost_forecasts

Row = dict[str, Any]
VERDICTS = ("regressed", "improved", "unchanged", "suspected", "insufficient_data")


def _trial_columns(trial: TrialSample, found: Conclusions) -> Row:
    return {**vars(trial), "campaign": found.campaign.campaign_id, "trial": trial.trial_id}


def _trials(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        yield {**_trial_columns(trial, found), "reasons": "; ".join(trial.reasons), "held": trial.held_s}


def _metrics(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        own = _trial_columns(trial, found)
        for each in trial.metrics:
            yield {**own, **vars(each), "low": each.ci_low, "high": each.ci_high}


def _findings(found: Conclusions) -> Iterator[Row]:
    for finding in found.campaign.findings:
        yield {**vars(finding), "campaign": finding.campaign_id, "finding": finding.finding_id, "series": finding.series_key}


def _drift(found: Conclusions) -> Iterator[Row]:
    for series in found.campaign.drift:
        counts = {verdict: series.verdicts.get(verdict, 0) for verdict in VERDICTS}
        own = {"campaign": found.campaign.campaign_id, "series": series.series_key, "baseline": " ".join(series.baseline)}
        yield {**vars(series), **counts, **own}


def _card_columns(card: Scorecard, found: Conclusions) -> Row:
    of = {name: getattr(card, name) for name in ("kind", "workload", "version", "provider")}
    return {"campaign": found.campaign.campaign_id, **of}


def _scorecards(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        for row in card.rows:
            yield {**_card_columns(card, found), **vars(row), "asked_first": row == card.primary, "trials": " ".join(row.trials)}


def _acceptance(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        for judged in card.acceptance:
            yield {**_card_columns(card, found), **vars(judged), "criterion": judged.text, "trials": " ".join(judged.trials)}


def _reliability(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        share, launch, refused = card.launch.share, card.launch, card.capacity.refused
        yield {
            **_card_columns(card, found),
            **card.counts,
            "planned": card.planned,
            "attempts": card.attempts,
            "launches": share.n,
            "launches_started": share.successes,
            "launch_low": share.low,
            "launch_high": share.high,
            "launch_promised": launch.promised,
            "launch_verdict": launch.verdict,
            "launches_refused": refused.successes,
        }


def _friction(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        friction, lead = card.friction, card.friction.lead_time
        measured = (lead.time, friction.pod_scheduling, friction.image_pull, *(s.time for s in card.capacity.scale))
        nodes = (None, None, None, *(s.nodes for s in card.capacity.scale))
        for each, several in zip(measured, nodes, strict=True):
            own = each is lead.time
            yield {
                **_card_columns(card, found),
                **vars(each),
                "metric": each.metric if several is None else f"{each.metric}_of_{several}_nodes",
                "unit": METRICS[each.metric].unit,
                "promised": lead.promised_s if own else None,
                "verdict": lead.verdict if own else None,
                "trials": " ".join(each.trials),
            }


def _references(found: Conclusions) -> Iterator[Row]:
    specs = [d.trial for d in found.campaign.documents]
    providers, workloads = {s.provider.name: s.provider for s in specs}, {s.workload.name: s.workload for s in specs}
    for card in found.cards:
        if card.provider in providers and card.workload in workloads:
            for share in reference_shares(card, found.campaign.references, providers[card.provider], workloads[card.workload]):
                more = {"reference": share.kind, "differs": "; ".join(share.differs), "trials": " ".join(share.trials)}
                yield {**vars(share), **more, **_card_columns(card, found), "unit": METRICS[share.metric].unit}


def _comparability(found: Conclusions) -> Iterator[Row]:
    for each in incomparable(found.cards):
        yield {**vars(each), "campaign": found.campaign.campaign_id, "providers": " ".join(each.providers)}


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


def _bills(found: Conclusions) -> Iterator[Row]:
    whose = {d.trial.trial_id: d.trial for d in found.campaign.documents}
    nothing: Row = dict.fromkeys(
        ("quantity", "quantity_unit", "unit_price", "price_unit", "cost", "currency", "basis", "source", "since", "what", "reason")
    )
    for trial_id, bill in found.bills.items():
        trial = whose[trial_id]
        own: Row = {
            "campaign": trial.campaign_id,
            "provider": trial.provider.name,
            "kind": trial.workload.kind,
            "workload": trial.workload.name,
        }
        own |= {**nothing, "trial": trial_id}
        for line in bill.lines:
            price = line.unit_price
            yield {
                **own,
                "item": line.item,
                "what": line.what,
                "quantity": line.quantity.value,
                "quantity_unit": line.quantity.unit,
                "unit_price": price.amount,
                "price_unit": f"{price.currency}/{price.per}",
                "cost": line.cost.amount,
                "currency": line.cost.currency,
                "basis": line.basis,
                "source": line.source,
                "since": line.since,
            }
        for unknown in bill.unknown:
            yield {**own, "item": unknown.item, "reason": unknown.reason}


def _prices(found: Conclusions) -> Iterator[Row]:
    for name, provider in sorted(found.campaign.providers.items()):
        for price in sorted(provider.price_list, key=lambda p: (p.purchase, p.since)):
            of = {name: getattr(price, name) for name in ("purchase", "price", "since", "until", "source")}
            yield {"provider": name, "unit": "USD/h", **of}


def _scenarios(found: Conclusions) -> Iterator[Row]:
    for o in cost_forecasts(found.campaign, found.trials):
        costs = o.scenarios
        totals = (None, None, None) if costs is None else (costs.best.total, costs.expected.total, costs.worst.total)
        yield {
            "campaign": found.campaign.campaign_id,
            **{name: getattr(o, name) for name in ("kind", "workload", "provider", "purchase", "amount")},
            "outcome": o.what,
            **dict(zip(("best", "expected", "worst"), totals, strict=True)),
            "unit": "USD",
            "price": o.price,
            "rate": o.rate,
            "without": "; ".join(m.what for m in o.unknown),
            "reason": o.reason,
            "trials": " ".join(o.trials),
        }


ROWS: dict[str, Callable[[Conclusions], Iterator[Row]]] = {
    "scorecards": _scorecards,
    "acceptance": _acceptance,
    "reliability": _reliability,
    "friction": _friction,
    "references": _references,
    "comparability": _comparability,
    "decisions": _decisions,
    "decision_values": _values,
    "gates": _gates,
    "sensitivity": _sensitivity,
    "cheapest": _cheapest,
    "bills": _bills,
    "prices": _prices,
    "scenarios": _scenarios,
    "trials": _trials,
    "metrics": _metrics,
    "findings": _findings,
    "drift": _drift,
}
