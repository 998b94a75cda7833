"""One workload on one provider in its newest campaign: leading metrics, cost, drift, age, and the state of its series in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from statistics import median
from typing import Any, Literal

from plumbline.analysis.cost.all_in import FURTHER, all_in
from plumbline.analysis.cost.unit_costs import COSTS, Cost, costs_of
from plumbline.analysis.decisions.current_results import STALE_DAYS
from plumbline.analysis.drift.series_state import SeriesState, SeriesStateName
from plumbline.analysis.prices.book import Quote, all_with_effective_prices, charged, quote, share_of
from plumbline.analysis.trial_sample import SUSTAINED
from plumbline.archive import Archive, FindingView, SeriesView
from plumbline.archive.pages import MetricKey, SeriesResult
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.teams import KINDS
from plumbline.findings.types import about_speed
from plumbline.metrics import METRICS, leading, leading_names
from plumbline.metrics.formatting import common_scale, format_count, format_name
from plumbline.results.finding import gravity
from plumbline.words.costs import reason_text
from plumbline.words.drift import state_change, state_text

StateName = Literal[SeriesStateName, "stale", "never_measured"]
ORDER: tuple[StateName, ...] = ("drifted", "suspected", "moved", "stale", "cannot_tell", "never_measured", "steady")
"""The most severe first."""


@dataclass(frozen=True)
class ShownState:
    """`name` as one of the words; `text`: the word with what could be seen, or what would settle a doubt."""

    name: StateName
    text: str


def shown_state(
    campaign_id: str | None, planned_at: datetime | None, now: datetime, drifted: bool, review: Mapping[str, Any] | None
) -> ShownState:
    """The state of a series whose newest campaign this is; None where it never ran.

    `drifted`: an open performance finding covers it. `review`: its newest, as `Archive.newest_reviews` gives it.
    """
    if campaign_id is None or planned_at is None:
        return ShownState("never_measured", "never measured")
    days = (now - planned_at).days
    age = f"; measured {days} days ago" if days > STALE_DAYS else ""
    state = None if review is None else SeriesState.of(review)
    if drifted:
        known = state is not None and state.state in ("drifted", "suspected") and state_change(state)
        return ShownState("drifted", "drifted" + (f": {known}" if known else "") + age)
    if review is None or state is None or review.get("campaign_id") != campaign_id:
        return ShownState("stale", "stale" + age.replace(";", ":")) if age else ShownState("cannot_tell", "cannot tell: not compared yet")
    if state.state in ("suspected", "moved"):  # age hides no change
        return ShownState(state.state, state_text(state) + age)
    if age:
        return ShownState("stale", "stale" + age.replace(";", ":"))
    if state.state == "drifted":  # the finding was accepted or resolved since
        return ShownState("cannot_tell", "cannot tell: the next campaign compares with the accepted baseline")
    return ShownState(state.state, state_text(state))


def state_in_campaign(campaign_id: str, planned_at: datetime, covered: bool, review: Mapping[str, Any] | None) -> ShownState:
    """The state of a series as the campaign's review said it. `covered`: see series_of_shared_causes, of the findings that the campaign shows. `review`: as
    `Archive.newest_reviews` gives the campaign's."""
    drifted = covered or (review is not None and review.get("state") == "drifted")
    return shown_state(campaign_id, planned_at, planned_at, drifted, review)


def drifted_series(findings: Collection[Any]) -> set[str]:
    """The series that performance findings cover. `findings`: as archived; the unsettled ones, or a campaign's."""
    return {key for f in findings if about_speed(f) for key in (f.detail.get("standing") or [f.series_key]) if key}


def series_of_shared_causes(findings: Collection[Any]) -> set[str]:
    """Series of shared causes only, whose verdict comes after the reviews of the series: their own repeats may be too few to show it."""
    return drifted_series([f for f in findings if f.detail.get("cause")])


HEADLINE_GROUPS = 3
"""Leading metrics of a series that a cell or a row shows."""


@dataclass(frozen=True)
class SeriesSummary:
    """One series in its newest campaign. `numbers`: see headline_numbers. `severity`: of its gravest unsettled finding, None without one.
    `cost`: (value, metric), or an empty value and the reason."""

    series_key: str
    provider: str
    workload: str
    numbers: tuple[tuple[str, str, str], ...]
    cost: tuple[str, str]
    usable: int
    planned: int
    campaign_id: str
    age: str
    stale: bool
    severity: str | None
    state: ShownState
    simulated: bool


def series_summaries(
    archive: Archive, declared: Declarations, series: Sequence[SeriesView], open_findings: Sequence[FindingView], now: datetime
) -> dict[tuple[str, str, int], dict[str, SeriesSummary]]:
    """(kind, workload, version) → provider → its cell. `open_findings`: findings that are not settled."""
    names = sorted({s.provider for s in series} & declared.providers.keys())
    providers = all_with_effective_prices((declared.providers[name] for name in names), archive.prices(list(names)))
    quotes = {name: quote(provider, now.date()) for name, provider in providers.items()}
    summaries: dict[tuple[str, str, int], dict[str, SeriesSummary]] = {}
    drifted, reviews = drifted_series(open_findings), archive.newest_reviews([s.series_key for s in series])
    # The newest series wins where a provider's instance type changed.
    for part in sorted(archive.newest_parts(series, _METRIC_KEYS), key=lambda part: part.planned_at):
        view = part.series
        severities = {f.severity for f in open_findings if view.series_key in (f.detail.get("standing") or [f.series_key])}
        summaries.setdefault((view.kind, view.workload, view.version), {})[view.provider] = SeriesSummary(
            series_key=view.series_key,
            provider=view.provider,
            workload=view.workload,
            numbers=headline_numbers(view.kind, partial(_leading_values, part)),
            cost=_cost(part, declared, quotes.get(view.provider), providers.get(view.provider), now.date()),
            usable=part.outcomes.usable,
            planned=part.outcomes.planned,
            campaign_id=part.campaign_id,
            age=format_age(part.planned_at, now),
            stale=(now - part.planned_at).days > STALE_DAYS,
            severity=min(severities, key=gravity, default=None),
            state=shown_state(part.campaign_id, part.planned_at, now, view.series_key in drifted, reviews.get(view.series_key)),
            simulated=view.source == "simulated",
        )
    return summaries


def _leading_values(part: SeriesResult, name: str) -> Sequence[float]:
    return part.values(name, METRICS[name].statistic)


def headline_numbers(kind: str, values_of: Callable[[str], Sequence[float] | None]) -> tuple[tuple[str, str, str], ...]:
    """(metric, median, range) of the first measured metric of each headline group."""
    is_whole_answer = kind == "inference" and not values_of("inter_token_latency")
    numbers = []
    for group in leading("whole_answer" if is_whole_answer else kind)[:HEADLINE_GROUPS]:
        name, values = next(((name, values) for name in group if (values := values_of(name))), ("", ()))
        if values:
            scale = common_scale(METRICS[name].unit, values, name)
            spread = f"{scale.number(min(values))} … {scale.number(max(values))}" if len(values) > 1 else ""
            numbers.append((format_name(name), scale.text(median(values)), spread))
    return tuple(numbers)


def _cost(part: SeriesResult, declared: Declarations, price: Quote | None, provider: Provider | None, on: date) -> tuple[str, str]:
    workload = declared.workloads.get(part.series.workload)
    if price is None or provider is None:
        return "", f"{part.series.provider} is no longer declared: no price"
    if workload is None or workload.version != part.series.version:
        return "", f"version {part.series.version} of the workload is no longer declared: node count unknown"
    kind, nodes = part.series.kind, workload.nodes
    share = share_of(declared.providers[part.series.provider], workload.gpus)
    costs = list[Cost]()
    for numbers in part.measured:

        def measured(metric: str, statistic: str, phase: str, numbers: Mapping[MetricKey, float] = numbers) -> float | None:
            return numbers.get((metric, statistic, phase))

        hours = costs_of(kind, charged(price, share), measured, nodes=nodes)
        costs += all_in(hours, provider, workload, declared.economics, on, measured, nodes).costs
    for name in leading_names(f"{kind}_cost"):
        values = [c.value for c in costs if c.metric == name and c.value is not None]
        if values:
            return common_scale(METRICS[name].unit, values, name).text(median(values)), format_name(name) + (f", {share}" if share else "")
    reasons = (c.reason for name in leading_names(f"{kind}_cost") for c in costs if c.metric == name and c.reason)
    return "", reason_text(next(reasons, None)) or "no measured outcome has a cost"


HEADLINE_NAMES = leading_names(*KINDS, "whole_answer")
"""The metrics that headline_numbers accepts."""


def _metric_keys() -> tuple[MetricKey, ...]:
    keys = {(name, METRICS[name].statistic, "steady") for name in HEADLINE_NAMES} | {
        (*number, c.phase) for c in COSTS for number in c.numbers
    }
    return tuple(sorted(keys | set(FURTHER) | {(name, "value", "sweep") for name in (SUSTAINED, "request_throughput", "error_rate")}))


_METRIC_KEYS = _metric_keys()
"""The numbers that cells are made of."""


def format_age(then: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = (now - then).total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count = int(seconds // size)
        if count >= 1:
            return f"{format_count(count, name)} ago"
    return "just now"
