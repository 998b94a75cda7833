"""What a cheaper precision saves, with the measured difference in quality beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plumbline.reports.chart import Chart
from plumbline.reports.charts_precision import precision_chart
from plumbline.reports.content import CampaignData
from plumbline.reports.figures import percent
from plumbline.reports.precision import Lever, levers
from plumbline.scorecards import TrialNumbers


@dataclass(frozen=True)
class PrecisionRow:
    """One precision of one model on one provider; `saving` against the reference, empty for the reference itself and where it is unknown."""

    precision: str
    workload: str
    cost: str
    saving: str
    difference: str
    why: str


@dataclass(frozen=True)
class PrecisionTable:
    """The precisions of one model on one provider, the finest first."""

    provider: str
    outcome: str
    load: str
    rows: tuple[PrecisionRow, ...]


@dataclass(frozen=True)
class Precisions:
    """Empty tables: no provider ran two precisions of one model."""

    tables: tuple[PrecisionTable, ...] = ()
    charts: tuple[Chart, ...] = ()


def precisions(campaign: CampaignData, trials: Sequence[TrialNumbers]) -> Precisions:
    """The levers of a campaign. `trials`: priced."""
    found = levers(trials, {d.trial.workload.name: d.trial.workload for d in campaign.documents})
    charts = (chart for lever in found if (chart := precision_chart(lever)) is not None)
    return Precisions(tuple(_table(lever) for lever in found), tuple(replace(chart, section="precision") for chart in charts))


def _table(lever: Lever) -> PrecisionTable:
    rows = tuple(
        PrecisionRow(
            precision=row.precision,
            workload=f"{row.workload} v{row.version}",
            cost=lever.cost_text(row),
            saving=""
            if row.saving is None or row.precision == lever.reference
            else f"{percent(abs(row.saving))} {'less' if row.saving >= 0 else 'more'}",
            difference=row.difference,
            why=row.why,
        )
        for row in lever.rows
    )
    return PrecisionTable(lever.provider, lever.outcome, lever.load, rows)
