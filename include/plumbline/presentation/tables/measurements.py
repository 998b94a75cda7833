"""Exported tables of trials, metrics, findings, drift and scorecards."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.analysis.scorecards.references import reference_shares
from plumbline.analysis.scorecards.scorecard import STATUSES, Scorecard
from plumbline.analysis.trial_sample import TrialSample
from plumbline.metrics import METRICS
from plumbline.presentation.tables.columns import (
    CAMPAIGN,
    CARD,
    KIND,
    METRIC,
    PLACE,
    SOURCE,
    TRIALS,
    UNIT,
    WORKLOAD,
    N,
    Row,
    Table,
    count,
    day,
    flag,
    number,
    text,
)

VERDICTS = ("regressed", "improved", "unchanged", "suspected", "insufficient_data")


def _trial_columns(trial: TrialSample, found: Conclusions) -> Row:
    return {**vars(trial), "campaign": found.campaign.campaign_id, "trial": trial.trial_id}


def _trials(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        yield {**_trial_columns(trial, found), "reasons": "; ".join(trial.reasons), "held": trial.held_s}


def _metrics(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        for each in trial.metrics:
            yield {**_trial_columns(trial, found), **vars(each), "low": each.ci_low, "high": each.ci_high}


def _findings(found: Conclusions) -> Iterator[Row]:
    for finding in found.campaign.findings:
        yield {**vars(finding), "campaign": finding.campaign_id, "finding": finding.finding_id, "series": finding.series_key}


def _drift(found: Conclusions) -> Iterator[Row]:
    for series in found.campaign.drift:
        counts = {verdict: series.verdicts.get(verdict, 0) for verdict in VERDICTS}
        own = {"campaign": found.campaign.campaign_id, "series": series.series_key, "baseline": " ".join(series.baseline)}
        yield {**vars(series), **counts, **own}


_TRIAL = (text("trial", "trial id"), count("attempt", "attempt of the trial, from 1"))

TRIAL_TABLES = {
    "trials": Table(
        "every attempt of every trial",
        (
            *CARD,
            *_TRIAL,
            text("slot", "time of day, UTC"),
            count("repeat", "repeat in the slot, from 1"),
            text("status", "valid, degraded, invalid, failed or missing, after the quality checks"),
            text("failure_class", "why it failed"),
            text("reasons", "why it is not simply valid"),
            day("started", "day of its first event, UTC"),
            number("held", "from request to release, summed over nodes", unit="s"),
            count("nodes", "instances that it held"),
        ),
        _trials,
    ),
    "metrics": Table(
        "every number of every attempt, costs included",
        (
            *CARD,
            *_TRIAL,
            *METRIC,
            number("value", "the trial's own number; empty: could not be measured", of="unit"),
            number("low", "lower end of its own 95 % interval", of="unit"),
            number("high", "upper end", of="unit"),
            UNIT,
            text("direction", "lower_is_better, higher_is_better or informative"),
            count("n", "observations behind it"),
        ),
        _metrics,
    ),
    "findings": Table(
        "what drifted",
        (
            CAMPAIGN,
            text("finding", "finding id"),
            text("kind", "performance, environment, price, reliability, missing_data or self"),
            text("severity", "info, warn or page"),
            text("state", "open, acknowledged, accepted or resolved"),
            text("headline", "the finding in a line"),
            text("explanation", "what it is attributed to"),
            text("series", "series key"),
        ),
        _findings,
    ),
    "drift": Table(
        "each series against its accepted baseline: how many metrics got which verdict",
        (
            CAMPAIGN,
            KIND,
            WORKLOAD,
            *PLACE,
            text("series", "series key"),
            text("baseline", "campaigns of the baseline, separated by spaces; empty: none was accepted before"),
            *(count(verdict, f"metrics that are {verdict.replace('_', ' ')}") for verdict in VERDICTS),
            text("note", "what the comparison cannot say"),
        ),
        _drift,
    ),
}


def scorecard_columns(card: Scorecard, found: Conclusions) -> Row:
    """The columns that say whose row it is."""
    of = {name: getattr(card, name) for name in ("kind", "workload", "version", "provider")}
    return {"campaign": found.campaign.campaign_id, **of}


def _scorecards(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        for row in card.rows:
            yield {**scorecard_columns(card, found), **vars(row), "asked_first": row == card.primary, "trials": " ".join(row.trials)}


def _acceptance(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        for judged in card.acceptance:
            yield {**scorecard_columns(card, found), **vars(judged), "criterion": judged.text, "trials": " ".join(judged.trials)}


def _reliability(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        share, launch, refused = card.launch.share, card.launch, card.capacity.refused
        yield {
            **scorecard_columns(card, found),
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
                **scorecard_columns(card, found),
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
                yield {**vars(share), **more, **scorecard_columns(card, found), "unit": METRICS[share.metric].unit}


def _comparability(found: Conclusions) -> Iterator[Row]:
    for each in incomparable(found.cards):
        yield {**vars(each), "campaign": found.campaign.campaign_id, "providers": " ".join(each.providers)}


SCORECARD_TABLES = {
    "scorecards": Table(
        "every number of every scorecard, with its interval",
        (
            *CARD,
            text("group", "latency, throughput, cost, reliability, …"),
            *METRIC,
            number("value", "median over usable repeats; empty: not measured", of="unit"),
            number("low", "lower end of the interval", of="unit"),
            number("high", "upper end of the interval", of="unit"),
            number("coverage", "the interval's true confidence", unit="ratio"),
            UNIT,
            text("direction", "lower_is_better, higher_is_better or informative"),
            N,
            count("observations", "observations of all repeats together"),
            flag("leading", "whether this statistic and phase stand for the metric"),
            flag("asked_first", "whether it is the workload's primary number"),
            TRIALS,
        ),
        _scorecards,
    ),
    "acceptance": Table(
        "acceptance criteria as declared, and what became of them",
        (
            *CARD,
            text("criterion", "the criterion as it was declared"),
            *METRIC,
            text("outcome", "pass, mixed, fail or insufficient"),
            number("value", "median over usable repeats", of="unit"),
            number("worst", "the repeat that is furthest on the bad side", of="unit"),
            number("limit", "the declared limit", of="unit"),
            UNIT,
            number("margin", "distance of the median from the limit over the limit, positive on the good side", unit="ratio"),
            count("met", "repeats that meet it"),
            N,
            count("planned", "trials that were planned"),
            text("explanation", "why the outcome is what it is"),
            TRIALS,
        ),
        _acceptance,
    ),
    "reliability": Table(
        "how trials ended, and launches against what the contract promises",
        (
            *CARD,
            count("planned", "trials that were planned"),
            count("attempts", "attempts that were made, retries included"),
            *(count(status, f"trials that ended {status}") for status in STATUSES),
            count("launches", "attempts that count as launches of the provider's"),
            count("launches_started", "launches whose harness started"),
            number("launch_low", "lower end of the 95 % Wilson interval of the share that started", unit="ratio"),
            number("launch_high", "its upper end", unit="ratio"),
            number("launch_promised", "what the provider's contract promises", unit="ratio"),
            text("launch_verdict", "met, missed, unproven or none_declared"),
            count("launches_refused", "launches of all the provider's workloads of this kind that ended for want of capacity"),
        ),
        _reliability,
    ),
    "friction": Table(
        "what it takes to get a trial running, and how long several nodes take",
        (
            *CARD,
            text("metric", "the metric's standard name; of several nodes with their number"),
            number("value", "median over launches; empty: see reason", of="unit"),
            number("low", "lower end of the interval", of="unit"),
            number("high", "upper end of the interval", of="unit"),
            number("coverage", "the interval's true confidence", unit="ratio"),
            UNIT,
            count("n", "launches that measured it"),
            number("promised", "what the provider's contract promises", of="unit"),
            text("verdict", "met, missed, unproven or none_declared"),
            text("reason", "why there is no value"),
            TRIALS,
        ),
        _friction,
    ),
    "references": Table(
        "scorecards against published figures and physical limits",
        (
            *CARD,
            text("reference", "published or physical"),
            text("what", "what the reference is of"),
            text("metric", "the metric's standard name"),
            number("published", "the reference", of="unit"),
            number("measured", "the card's number", of="unit"),
            UNIT,
            number("share", "measured against the reference, above 1 is better; empty: another shape, see differs", unit="ratio"),
            number("low", "lower end of the share's interval", unit="ratio"),
            number("high", "upper end", unit="ratio"),
            text("by", "who publishes it"),
            SOURCE,
            day("on", "day of the source"),
            text("differs", "in what the published shape is another one"),
            N,
            TRIALS,
        ),
        _references,
    ),
    "comparability": Table(
        "what must not, or hardly can, be put side by side",
        (
            CAMPAIGN,
            KIND,
            WORKLOAD,
            text("providers", "the providers that it concerns, separated by spaces"),
            text("weight", "refused or caution"),
            text("code", "of what limits a comparison that is made: native_stack, gpu_class or other_gpus_alike; else empty"),
            text("reason", "why"),
        ),
        _comparability,
    ),
}
