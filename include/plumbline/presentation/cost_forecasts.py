"""Cost forecasts, spot and hosted comparisons as rows, sentences and charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.cost.forecast import CostForecast, ForecastInputs, cost_forecast
from plumbline.analysis.cost.hosted_forecast import HostedForecast, hosted_forecast
from plumbline.analysis.cost.payment_options import PaymentOptions, payment_options
from plumbline.analysis.cost.precision import Lever, precision_levers
from plumbline.analysis.cost.spot_forecast import SpotForecast, spot_forecast
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload
from plumbline.declarations.economics import Economics
from plumbline.kinds import kind_of
from plumbline.metrics.formatting import capitalize_first, common_scale, format_money, format_name, format_percent
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.costs import forecast_charts
from plumbline.words.costs import break_even_text, fleet_text, reason_text, spot_even_text, spot_reason
from plumbline.words.precision import format_saving


@dataclass(frozen=True)
class RangeRow:
    """One provider's cost of one workload's outcome, USD. Where there is none, en dashes and why. `missing`: names of what it is without."""

    provider: str
    workload: str
    outcome: str
    best: str
    expected: str
    worst: str
    why_not: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class ForecastSection:
    """`ranges`: by workload and provider. `undeclared`: missing inputs and their effect. `sentences`: spot and break-even. `visible`,
    `folded`: charts. `reason`: why there is no forecast; empty if there is one."""

    ranges: tuple[RangeRow, ...] = ()
    undeclared: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    visible: tuple[Chart, ...] = ()
    folded: tuple[Chart, ...] = ()
    reason: str = ""


def forecast_section(campaign: CampaignData, trials: Sequence[TrialSample]) -> ForecastSection:
    """Everything that the declared economics allow for a campaign, at the prices of the day on which the report is written."""
    if campaign.economics == Economics():
        return ForecastSection(reason="No use, volume or hosted models declared (economics.yaml), so no forecast.")
    day = campaign.written_at.date()
    pairs = _pairs(campaign, trials)
    if not pairs:
        return ForecastSection(reason="No usable trial, so no forecast.")
    costs, spots, hosted, ways = cost_forecasts(campaign, trials), [], [], []
    for provider, workload in pairs:
        declaration, economics = campaign.providers[provider], campaign.economics
        if workload.kind == "training":
            spots.append(spot_forecast(declaration, workload, trials, economics, day))
            continue
        if economics.hosted_for(workload.name):
            hosted.append(hosted_forecast(declaration, workload, trials, economics, day, campaign.purchase))
        found = payment_options(ForecastInputs(declaration, workload, trials, economics, day), campaign.providers.values())
        if not isinstance(found, str):
            ways += [f"Ways to pay, {workload.name} on {provider}: {sentence}." for sentence in way_sentences(found)]
    charts = forecast_charts(costs, spots, hosted)
    scenario_charts = [c for c in charts if c.name.endswith("-scenarios")]
    return ForecastSection(
        ranges=tuple(_range(o) for o in costs),
        undeclared=tuple(dict.fromkeys(capitalize_first(m.reason) for o in costs for m in o.unknown)),
        sentences=(*(_spot(s, day) for s in spots), *(line for h in hosted for line in _hosted(h)), *ways),
        visible=tuple(replace(c, section="outlook") for c in scenario_charts),
        folded=tuple(replace(c, section="outlook-more") for c in charts if c not in scenario_charts),
    )


def cost_forecasts(campaign: CampaignData, trials: Sequence[TrialSample]) -> tuple[CostForecast, ...]:
    """The cost of each workload's outcome on each provider with a usable trial; empty if nothing is declared."""
    if campaign.economics == Economics():
        return ()
    on, economics = campaign.written_at.date(), campaign.economics
    return tuple(cost_forecast(campaign.providers[p], w, trials, economics, on, campaign.purchase) for p, w in _pairs(campaign, trials))


def _pairs(campaign: CampaignData, trials: Iterable[TrialSample]) -> list[tuple[str, AnyWorkload]]:
    """Every provider and workload with a usable trial, training first; no container, which counts no work."""
    specs = {d.trial.workload.name: d.trial.workload for d in campaign.documents}
    keys = {(t.kind != "training", t.workload, t.provider) for t in trials if t.usable and t.provider in campaign.providers}
    return [(provider, specs[name]) for _, name, provider in sorted(keys) if kind_of(specs[name]).has_outcome]


def _range(o: CostForecast) -> RangeRow:
    scenarios = o.scenarios
    if scenarios is None:
        return RangeRow(o.provider, o.workload, o.outcome, "–", "–", "–", reason_text(o.reason) or "", ())
    scale = common_scale("USD", [scenarios.best.total, scenarios.expected.total, scenarios.worst.total])
    best, expected, worst = (scale.text(parts.total) for parts in (scenarios.best, scenarios.expected, scenarios.worst))
    return RangeRow(o.provider, o.workload, o.outcome, best, expected, worst, "", tuple(format_name(m.what) for m in o.unknown))


def _spot(s: SpotForecast, on: date) -> str:
    if s.cost is None:
        return f"Spot, {s.workload} on {s.provider}: {spot_reason(s)}."
    scale = common_scale("USD", [s.cost.on_demand, s.cost.spot])
    return (
        f"Spot, {s.workload} on {s.provider}: a finished run is expected to cost {scale.text(s.cost.spot)}, {format_saving(s.cost.saving)} than {scale.text(s.cost.on_demand)} "
        f"on demand, at {s.per_hour:.3g} interruptions per hour. {capitalize_first(spot_even_text(s.cost.why))}."
    )


def _hosted(h: HostedForecast) -> list[str]:
    setup = f"{h.workload} on {h.provider}"
    if h.own is None:
        return [f"Own or hosted, {setup}: {h.reason}."]
    sentences = []
    for comparison in h.against:
        break_evens = [break_even_text(even) for even in (comparison.volume, comparison.utilisation) if even is not None] or [
            comparison.reason or ""
        ]
        sentences.append(f"{setup} compared with {comparison.hosted.name}: {'; '.join(break_evens)}.")
    return sentences


def way_sentences(ways: PaymentOptions) -> tuple[str, ...]:
    """Where each way to pay is cheapest; and over twelve months, if a volume is declared, the costs and the slack of whole instances."""
    spans = ", ".join(f"{name} from {format_percent(low, 1)} to {format_percent(high, 1)}" for name, low, high in ways.spans)
    sentences = [f"cheapest by utilisation of {ways.capacity:,.0f} requests a month: {spans}"]
    if ways.months:
        last = ways.months[-1].fleets
        costs = (f"{o.name} {format_money(usd)}" for o, usd in zip(ways.options, ways.totals, strict=True))
        fleets = (f"{o.name}: {fleet_text(fleet)}" for o, fleet in zip(ways.options, last, strict=True) if fleet is not None)
        sentences.append(f"over {len(ways.months)} months {', '.join(costs)}; in the last month {'; '.join(fleets)}")
    return tuple(sentences)


def campaign_levers(campaign: CampaignData, trials: Sequence[TrialSample]) -> tuple[Lever, ...]:
    """The precisions of one model that a campaign measured. `trials`: priced."""
    return precision_levers(trials, {d.trial.workload.name: d.trial.workload for d in campaign.documents})
