"""Read the current numbers of every provider on every workload, in a fixed number of statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date

from plumbline.analysis.cost.all_in import FURTHER, Priced
from plumbline.analysis.cost.unit_costs import COSTS
from plumbline.analysis.fleet import Fleet, FleetSeries, Number, usual_numbers, with_monthly_outcomes
from plumbline.analysis.prices.book import Quote, all_with_effective_prices, charged, quote, share_of
from plumbline.analysis.scorecards.scorecard import primary_of
from plumbline.analysis.trial_sample import SUSTAINED
from plumbline.answers.current_results import select_series
from plumbline.archive import Archive
from plumbline.archive.samples import CurrentSeries
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.teams import KINDS

_COST_RATES = {number for c in COSTS for number in c.numbers} | {
    (name, "value") for name in (SUSTAINED, "request_throughput", "error_rate")
}


def read_fleet(
    archive: Archive,
    declared: Declarations,
    on: date,
    *,
    workload: str | None = None,
    metrics: Collection[tuple[str, str]] = (),
) -> Fleet:
    """The current results of every provider, as decisions select them, at the effective prices of the day.

    `metrics`: (metric, statistic) to read beside each workload's primary number and the rates that costs rest on.
    """
    parts, _ = select_series(archive, declared, False, workload=workload)
    wanted = (
        _COST_RATES | {number[:2] for number in FURTHER} | set(metrics) | {number[:2] for kind in KINDS for number in usual_numbers(kind)}
    )
    wanted |= {first[:2] for part in parts if (first := primary_number(declared, part.series.workload)) is not None}
    numbers = archive.numbers_of([(part.series.series_key, part.campaign_id) for part in parts], wanted)
    known = sorted({part.series.provider for part in parts} & declared.providers.keys())
    priced = all_with_effective_prices((declared.providers[name] for name in known), archive.prices(known))
    fleet = [_series(part, declared, numbers.get(part.series.series_key, ()), priced, on) for part in parts]
    return Fleet(with_monthly_outcomes(fleet, declared.alerts.volumes))


def primary_number(declared: Declarations, workload: str) -> Number | None:
    """(metric, statistic, phase) of the number that comes first for a workload; None where it is no longer declared."""
    spec = declared.workloads.get(workload)
    if spec is None:
        return None
    first = primary_of(spec)
    return first.metric, first.statistic, first.phase


def _series(part: CurrentSeries, declared: Declarations, numbers: Sequence[object], priced: dict[str, Provider], on: date) -> FleetSeries:
    one, spec = part.series, declared.workloads.get(part.series.workload)
    same = spec if spec is not None and spec.version == one.version else None
    provider = priced.get(one.provider)
    listed = quote(provider, on) if provider is not None else None
    price: Quote | None = None
    if provider is not None and listed is not None and same is not None and not provider.token_prices:
        price = charged(listed, share_of(provider, same.gpus))
    epoch = same.epoch_size if same is not None else None
    return FleetSeries(
        provider=one.provider,
        kind="training" if one.kind == "training" else "inference",
        workload=one.workload,
        version=one.version,
        series_key=one.series_key,
        campaign_id=part.campaign_id,
        own_metrics=() if spec is None else tuple(m for m in spec.catalogue.values() if m.declared),
        planned_at=part.planned_at,
        simulated=one.source == "simulated",
        measured=tuple(numbers),  # type: ignore[arg-type]
        price=price,
        nodes=same.nodes if same is not None else 1,
        epoch_size=epoch,
        beside=Priced(provider, same, declared.economics, on) if price is not None and provider is not None and same is not None else None,
        usd_per_hour=listed.basis.usd_per_hour if listed is not None and listed.basis is not None else None,
    )
