"""Runs of other benchmark tools as rows: beside what was measured here, and alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from plumbline.analysis.scorecards.imported import ImportedFigure, compare_imported
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.declarations import AnyWorkload
from plumbline.metrics.formatting import common_scale, format_name, format_percent
from plumbline.results.published import PublishedResult


@dataclass(frozen=True)
class FigureRow:
    """`ratio`: measured here over imported, in percent; a dash with `why` where the two are not comparable."""

    name: str
    statistic: str
    imported: str
    measured: str
    ratio: str
    why: str


@dataclass(frozen=True)
class ImportedRun:
    """One run of a tool. `gaps`: (code, sentence); the differences from the workload come first, as `other_load`."""

    trial_id: str
    provider: str
    workload: str
    tool: str
    file: str
    sha256: str
    measured_on: date
    load: str
    rejected: tuple[str, ...]
    figures: tuple[FigureRow, ...]
    gaps: tuple[tuple[str, str], ...]


def imported_runs(
    results: Sequence[PublishedResult], cards: Sequence[Scorecard], workloads: Mapping[str, AnyWorkload]
) -> tuple[ImportedRun, ...]:
    """Each run beside the card of its provider, workload and version."""
    by_provider = {(c.provider, c.workload, c.version): c for c in cards}
    runs = []
    for result in results:
        if result.source is None:
            continue
        declared = workloads.get(result.workload)
        comparison = compare_imported(
            result,
            by_provider.get((result.provider, result.workload, result.version)),
            declared if declared is not None and declared.version == result.version else None,
        )
        runs.append(
            ImportedRun(
                trial_id=result.trial_id,
                provider=result.provider,
                workload=result.workload,
                tool=result.publisher,
                file=result.source.name,
                sha256=result.source.sha256,
                measured_on=result.published_at.date(),
                load=str(result.spec["load"]),
                rejected=tuple(reason.detail for reason in result.validity.reasons),
                figures=tuple(_figure(figure) for figure in comparison.figures),
                gaps=(*(("other_load", text) for text in comparison.differs), *((gap.code, gap.detail) for gap in result.gaps)),
            )
        )
    return tuple(runs)


def _figure(figure: ImportedFigure) -> FigureRow:
    measured, imported = figure.measured, figure.imported
    scale = common_scale(imported.unit, [imported.value, measured.value if measured else None], imported.metric)
    return FigureRow(
        name=format_name(imported.metric),
        statistic="" if imported.statistic == "value" else imported.statistic,
        imported=scale.text(imported.value),
        measured=scale.text(measured.value) if measured is not None and measured.value is not None else "–",
        ratio="–" if figure.ratio is None else format_percent(figure.ratio),
        why=", ".join(figure.why) if measured is not None else "",
    )
