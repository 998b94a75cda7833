"""Tables of what was measured and what drifted: trials, their numbers, findings, comparisons with the baseline."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.reports.conclusions import Conclusions
from plumbline.reports.export.column import CAMPAIGN, CARD, KIND, METRIC, PLACE, UNIT, WORKLOAD, Row, Table, count, day, number, text
from plumbline.scorecards import TrialNumbers

VERDICTS = ("regressed", "improved", "unchanged", "suspected", "insufficient_data")


def _of(trial: TrialNumbers, found: Conclusions) -> Row:
    return {**vars(trial), "campaign": found.campaign.campaign_id, "trial": trial.trial_id}


def _trials(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        yield {**_of(trial, found), "reasons": "; ".join(trial.reasons), "held": trial.held_s}


def _metrics(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        for each in trial.metrics:
            yield {**_of(trial, found), **vars(each), "low": each.ci_low, "high": each.ci_high}


def _findings(found: Conclusions) -> Iterator[Row]:
    for finding in found.campaign.findings:
        yield {**vars(finding), "campaign": finding.campaign_id, "finding": finding.finding_id, "series": finding.series_key}


def _drift(found: Conclusions) -> Iterator[Row]:
    for series in found.campaign.drift:
        counts = {verdict: series.verdicts.get(verdict, 0) for verdict in VERDICTS}
        own = {"campaign": found.campaign.campaign_id, "series": series.series_key, "baseline": " ".join(series.baseline)}
        yield {**vars(series), **counts, **own}


_TRIAL = (text("trial", "trial id"), count("attempt", "attempt of the trial, from 1"))

TABLES = {
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
