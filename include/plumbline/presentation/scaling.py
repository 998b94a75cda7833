"""How services scale: the time until a service is within its SLO again after its load stepped up, first; then what it missed, and how it shrank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.scorecards.criteria import CriterionVerdict
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.answers.scaling import ScaledWorkload
from plumbline.declarations.workloads.load import ScaleOutPhaseSpec
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, common_scale, format_name, join_words
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.inference import PHASE_CURVES, phase_curve_chart
from plumbline.results.document import NO_SCALE_OUT
from plumbline.words.criteria import explanation_text

PHASE = "scale_out"
FIRST = "time_to_scale_out"
FIGURES = (FIRST, "slo_miss_ratio", "time_to_scale_in", "idle_replica_time", "idle_replica_cost")
_NO_TIME = (NO_SCALE_OUT, "no_start_capacity")
"""Reasons of a trial without a time to scale out."""
DECLARE = "{name: scale_out, rates: [2/s, 8/s], hold: 3min, down: 3min}"


@dataclass(frozen=True)
class ScalingFigure:
    """One number of the phase over all repeats, null where none measured it; `text` and `interval`: as it is shown."""

    metric: str
    number: Row | None
    text: str
    interval: str


@dataclass(frozen=True)
class ScalingVerdict:
    """A criterion about the phase: `outcome` is pass, mixed, fail or insufficient, and `limit` what it allows."""

    metric: str
    limit: str
    outcome: str
    explanation: str


@dataclass(frozen=True)
class ScalingLine:
    """A provider. `figures`: under the headings of its workload. `why`: why there is no time to scale out, empty where there is one."""

    provider: str
    campaign: str
    simulated: bool
    repeats: str
    figures: tuple[ScalingFigure, ...]
    why: str
    verdicts: tuple[ScalingVerdict, ...]


@dataclass(frozen=True)
class ScalingView:
    """A workload, the quickest provider first. `load`: the steps in words. `answer`: of all providers; says so where nothing was measured."""

    workload: str
    load: str
    answer: str
    headings: tuple[str, ...]
    lines: tuple[ScalingLine, ...]


def scaling_view(found: ScaledWorkload, money: bool) -> ScalingView:
    cards = sorted(found.cards, key=lambda card: (_seconds(card), card.provider))
    names = [name for name in FIGURES if name == FIRST or any(_row(card, name) for card in cards)]
    names = [name for name in names if money or METRICS[name].unit != "USD"]
    scales = {
        name: common_scale(METRICS[name].unit, [None if row is None else row.value for row in _rows(cards, name)], name) for name in names
    }
    lines = tuple(
        ScalingLine(
            provider=card.provider,
            campaign=found.campaigns.get(card.provider, ""),
            simulated=card.provider in found.simulated,
            repeats=f"{card.usable} of {card.planned}",
            figures=tuple(_figure(name, _row(card, name), scales[name]) for name in names),
            why="" if math.isfinite(_seconds(card)) else _why(found, card),
            verdicts=tuple(_verdict(each) for each in card.acceptance if each.phase == PHASE),
        )
        for card in cards
    )
    spec = found.spec.scale_out
    assert isinstance(spec, ScaleOutPhaseSpec)  # of a scaled workload
    rates = ", ".join(f"{rate:g}/s" for rate in spec.rates)
    return ScalingView(
        workload=found.spec.name,
        load=f"Load of {rates}, each for {spec.hold:g} s, then {spec.rates[0]:g}/s for {spec.down:g} s.",
        answer=_answer(lines),
        headings=tuple(format_name(name) for name in names),
        lines=lines,
    )


def scaling_charts(found: ScaledWorkload) -> tuple[Chart, ...]:
    """Time and misses by the rate to which the load rose."""
    providers = sorted(card.provider for card in found.cards)
    quantities = [quantity for group in PHASE_CURVES for quantity in group if quantity[0] == "offered_rate"]
    name = found.spec.name
    charts = (phase_curve_chart(f"scaling-{name}", f", {name}", providers, found.documents, name, *each) for each in quantities)
    return tuple(chart for chart in charts if chart is not None)


def _answer(lines: Sequence[ScalingLine]) -> str:
    if not lines:
        return "not measured by any provider"
    back = [f"{line.provider} {line.figures[0].text}" for line in lines if not line.why]
    late = [line.provider for line in lines if line.why]
    parts = [f"back within the SLO after {join_words(back)}"] if back else []
    parts += [f"not back on {join_words(late)}"] if late else []
    return "; ".join(parts)


def _row(card: Scorecard, metric: str) -> Row | None:
    return card.row(metric, METRICS[metric].statistic, PHASE)


def _rows(cards: Sequence[Scorecard], metric: str) -> list[Row | None]:
    return [_row(card, metric) for card in cards]


def _seconds(card: Scorecard) -> float:
    """For the order: what was not back is last."""
    row = _row(card, FIRST)
    return math.inf if row is None or row.value is None else row.value


def _figure(metric: str, row: Row | None, scale: Scale) -> ScalingFigure:
    if row is None or row.value is None:
        return ScalingFigure(metric, None, "–", "")
    return ScalingFigure(metric, row, scale.text(row.value), "" if row.low == row.high else scale.interval(row.low, row.high))


def _verdict(verdict: CriterionVerdict) -> ScalingVerdict:
    limit = verdict.declared.replace(verdict.metric, "", 1).replace(f" in {PHASE}", "").strip()
    return ScalingVerdict(verdict.metric, limit, verdict.outcome, explanation_text(verdict.basis))


def _why(found: ScaledWorkload, card: Scorecard) -> str:
    own = (d for d in found.documents if d.trial.provider.name == card.provider)
    details = dict.fromkeys(reason.detail for d in own for reason in d.validity.reasons if reason.code in _NO_TIME)
    return next(iter(details), "no usable trial measured it")
