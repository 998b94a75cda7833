"""What the page of a campaign shows. Reads a page's worth of series and of trials, so that a campaign of any size costs the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from plumbline.archive import Archive, FindingView, Outcomes, SeriesView, TrialView
from plumbline.archive.paging import CampaignHead, SeriesOutcome, Slice
from plumbline.dashboard.cells import ANSWERED_WHOLE, HEADLINE
from plumbline.dashboard.decision_history import Kept, kept
from plumbline.dashboard.folder import tables
from plumbline.declarations import METRICS
from plumbline.reports.figures import scale, words

MOST_FINDINGS, DECISIONS_LOOKED_AT = 20, 50
_GROUPS = (*HEADLINE["training"], *HEADLINE["inference"], *ANSWERED_WHOLE)
_LEADING = dict.fromkeys((*(name for group in _GROUPS for name in group), "inter_token_latency"))
_ASKED = tuple((name, METRICS[name].statistic) for name in _LEADING)


@dataclass(frozen=True)
class SeriesRow:
    """One series' part of the campaign. `numbers`: (metric, median over usable repeats, their range), the leading ones of its kind."""

    series: SeriesView
    outcomes: Outcomes
    numbers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class CampaignPage:
    """`whole`: how all trials ended, None where the campaign has more series than one page of them."""

    head: CampaignHead
    rows: tuple[SeriesRow, ...]
    more_series: str | None
    whole: Outcomes | None
    trials: Slice[TrialView]
    findings: tuple[FindingView, ...]
    decisions: tuple[Kept, ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]


def campaign_page(
    archive: Archive, reports: Path, campaign_id: str, series_after: str | None, series_key: str | None, after: str | None
) -> CampaignPage | None:
    """None for an unknown campaign. `series_after`, `after`: where the lists of series and of trials go on; ValueError for an `after` that
    is no number. `series_key`: trials of this series alone."""
    head = archive.campaign_head(campaign_id)
    if head is None:
        return None
    series = archive.campaign_series(campaign_id, _ASKED, series_after)
    stored = archive.decisions_page(limit=DECISIONS_LOOKED_AT).rows
    own = (kept(view) for view in stored)
    return CampaignPage(
        head=head,
        rows=tuple(_row(part) for part in series.rows),
        more_series=series.after,
        whole=_together(series.rows) if series.after is None and series_after is None else None,
        trials=archive.trials_page(campaign_id, series_key, after),
        findings=archive.findings_shown_by(campaign_id, MOST_FINDINGS),
        decisions=tuple(k for k in own if campaign_id in k.campaigns),
        tables=tables(reports, campaign_id),
    )


def _row(part: SeriesOutcome) -> SeriesRow:
    kind = part.series.kind
    whole = kind == "inference" and "inter_token_latency" not in part.values
    numbers = []
    for group in ANSWERED_WHOLE if whole else HEADLINE[kind]:
        name = next((name for name in group if part.values.get(name)), None)
        if name is not None:
            values = part.values[name]
            shown = scale(METRICS[name].unit, values, name)
            spread = f"{shown.number(min(values))} … {shown.number(max(values))}" if len(values) > 1 else ""
            numbers.append((words(name), shown.text(median(values)), spread))
    return SeriesRow(part.series, part.outcomes, tuple(numbers))


def _together(parts: tuple[SeriesOutcome, ...]) -> Outcomes:
    return Outcomes(**{name: sum(getattr(p.outcomes, name) for p in parts) for name in Outcomes.__dataclass_fields__})
