"""A campaign's tables as data frames with stable columns: what `plumbline report --tables` writes and the pages let people download."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Provider
from plumbline.reports.conclusions import Conclusions, conclude
from plumbline.reports.content import CampaignData
from plumbline.reports.export_columns import COLUMNS, Holds
from plumbline.scorecards import Decision, Scorecard, TrialNumbers

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
_DTYPES: dict[Holds, Any] = {"text": "string", "number": "Float64", "count": "Int64", "flag": "boolean", "day": "date32[pyarrow]"}


def tables(campaign: CampaignData, found: Conclusions | None = None) -> dict[str, pd.DataFrame]:
    """Every table of the campaign by name, columns as in `export_columns.COLUMNS`; a table without rows has its columns all the same.

    `found`: what was concluded already. Numbers are in the unit that the row or the column names, unrounded; what is not known is missing.
    """
    found = conclude(campaign) if found is None else found
    name = campaign.campaign_id
    rows: dict[str, Iterable[Row]] = {
        "scorecards": _scorecards(found.cards, name),
        "acceptance": _acceptance(found.cards, name),
        "decisions": _decisions(found.decisions, name),
        "decision_values": _decision_values(found.decisions, name),
        "gates": _gates(found.decisions, name),
        "reliability": _reliability(found.cards, name),
        "findings": _findings(campaign),
        "trials": (_trial(t, name) for t in found.trials),
        "metrics": _metrics(found.trials, name),
        "prices": prices(campaign.providers),
    }
    return {table: frame(table, made) for table, made in rows.items()}


def frame(table: str, rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as the table that `COLUMNS` declares; KeyError for a row that lacks one of its columns."""
    import pandas as pd

    listed = list(rows)
    return pd.DataFrame({c.name: pd.array([row[c.name] for row in listed], dtype=_DTYPES[c.holds]) for c in COLUMNS[table]})


def prices(providers: Mapping[str, Provider]) -> Iterator[Row]:
    """Every price of the providers, of whole instances, the oldest first."""
    for name, provider in sorted(providers.items()):
        for price in sorted(provider.price_list, key=lambda p: (p.purchase, p.since)):
            yield {
                "provider": name,
                "purchase": price.purchase,
                "price": price.price,
                "unit": "USD/h",
                "since": price.since,
                "until": price.until,
                "source": price.source,
            }


def _card(card: Scorecard | TrialNumbers, campaign: str) -> Row:
    return {"campaign": campaign, "kind": card.kind, "workload": card.workload, "version": card.version, "provider": card.provider}


def _scorecards(cards: Iterable[Scorecard], campaign: str) -> Iterator[Row]:
    for card in cards:
        for row in card.rows:
            yield {**_card(card, campaign), **vars(row), "trials": " ".join(row.trials)}


def _acceptance(cards: Iterable[Scorecard], campaign: str) -> Iterator[Row]:
    for card in cards:
        for judged in card.acceptance:
            yield {**_card(card, campaign), **vars(judged), "criterion": judged.text, "trials": " ".join(judged.trials)}


def _decision(decision: Decision, campaign: str) -> Row:
    return {"campaign": campaign, "team": decision.team, "kind": decision.kind}


def _decisions(decisions: Iterable[Decision], campaign: str) -> Iterator[Row]:
    for decision in decisions:
        for place, ranked in enumerate(decision.ranking, start=1):
            yield {
                **_decision(decision, campaign),
                **vars(ranked),
                "place": place if ranked.eligible else None,
                "why_not": "; ".join(ranked.why_not),
                "note": decision.note,
                "seed": decision.seed,
                "draws": decision.draws,
                "trials": " ".join(ranked.trials),
            }


def _decision_values(decisions: Iterable[Decision], campaign: str) -> Iterator[Row]:
    for decision in decisions:
        for ranked in decision.ranking:
            for i, column in enumerate(decision.columns):
                worth = None if ranked.ratios is None else ranked.ratios[i]
                own = {"provider": ranked.provider, "value": ranked.values[i], "worth": worth}
                yield {**_decision(decision, campaign), **vars(column), **own}


def _gates(decisions: Iterable[Decision], campaign: str) -> Iterator[Row]:
    for decision in decisions:
        for ranked in decision.ranking:
            for gate in ranked.gates:
                yield {**_decision(decision, campaign), **vars(gate), "provider": ranked.provider, "gate": gate.text}


def _reliability(cards: Iterable[Scorecard], campaign: str) -> Iterator[Row]:
    for card in cards:
        share, launch = card.launch.share, card.launch
        yield {
            **_card(card, campaign),
            **card.counts,
            "planned": card.planned,
            "attempts": card.attempts,
            "launches": share.n,
            "launches_started": share.successes,
            "launch_low": share.low,
            "launch_high": share.high,
            "launch_promised": launch.promised,
            "launch_verdict": launch.verdict,
        }


def _findings(campaign: CampaignData) -> Iterator[Row]:
    for finding in campaign.findings:
        known = {"campaign": finding.campaign_id, "finding": finding.finding_id, "series": finding.series_key}
        yield {**vars(finding), **known}


def _trial(trial: TrialNumbers, campaign: str) -> Row:
    return {
        **_card(trial, campaign),
        **vars(trial),
        "trial": trial.trial_id,
        "reasons": "; ".join(trial.reasons),
        "held": trial.held_s,
    }


def _metrics(trials: Iterable[TrialNumbers], campaign: str) -> Iterator[Row]:
    for trial in trials:
        own = {**_card(trial, campaign), "trial": trial.trial_id, "attempt": trial.attempt}
        for number in trial.metrics:
            yield {**own, **vars(number), "low": number.ci_low, "high": number.ci_high}
