"""Runs of other benchmark tools beside what was measured here: differences of load and lengths, and a ratio only where none touches the figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.declarations import AnyWorkload, InferenceWorkload
from plumbline.declarations.workloads.load import Arrivals, LoadPhaseSpec, Requests, Tokens, mean_tokens
from plumbline.formats.reading.gaps import FEW_FAILURES
from plumbline.metrics import METRICS
from plumbline.results import MetricRow, Scalar
from plumbline.results.published import PublishedResult

SAME_RATE = 0.02
"""Relative difference up to which two arrival rates count as the same."""
SAME_LENGTH = 0.1
"""Relative difference up to which two mean lengths count as the same: tokenizers and templates differ by a few tokens."""
_STATISTICS = ("value", "p50", "p95", "p99")


@dataclass(frozen=True)
class ImportedFigure:
    """A figure of the file, and the same metric and statistic as measured here.

    `ratio`: measured over imported; None without a measured value, or where a gap or a difference touches the figure, which `why` lists."""

    imported: MetricRow
    measured: Row | None
    ratio: float | None
    why: tuple[str, ...]


@dataclass(frozen=True)
class ImportedComparison:
    """One run, its figures in the catalogue's order. `differs`: in what its load and lengths differ from the workload's, in words."""

    result: PublishedResult
    figures: tuple[ImportedFigure, ...]
    differs: tuple[str, ...]


def compare_imported(result: PublishedResult, card: Scorecard | None, workload: AnyWorkload | None) -> ImportedComparison:
    """The run's figures beside the provider's scorecard. Pure. Without a card or a declared workload nothing is compared."""
    differs = (
        ("the workload is no longer declared",)
        if workload is None or (served := workload.serving) is None
        else tuple(_differs(result, card, served))
    )
    rows = [row for row in result.metrics if row.statistic in _STATISTICS and row.value is not None]
    rows.sort(key=lambda row: (list(METRICS).index(row.metric), _STATISTICS.index(row.statistic)))
    return ImportedComparison(result, tuple(_figure(result, row, card, bool(differs)) for row in rows), differs)


def _figure(result: PublishedResult, row: MetricRow, card: Scorecard | None, differs: bool) -> ImportedFigure:
    measured = card.row(row.metric, row.statistic, "steady") if card is not None else None
    why = ["other_load"] if differs else []
    why += [gap.code for gap in result.gaps if row.metric in gap.metrics]
    why += ["rejected_by_tool"] if result.validity.status != "valid" else []
    why += ["unknown_errors"] if not any(m.metric == "error_rate" and m.value is not None for m in result.metrics) else []
    why += ["failed_here"] if (_measured(card, "error_rate") or 0.0) > FEW_FAILURES else []
    if measured is None or measured.value is None or not row.value:
        return ImportedFigure(row, measured, None, tuple(why))
    return ImportedFigure(row, measured, None if why else measured.value / row.value, tuple(why))


def _measured(card: Scorecard | None, metric: str) -> float | None:
    row = card.row(metric, "value", "steady") if card is not None else None
    return row.value if row is not None else None


def _differs(result: PublishedResult, card: Scorecard | None, workload: InferenceWorkload) -> Iterator[str]:
    arrivals = next((p.arrivals for p in workload.phases if isinstance(p, LoadPhaseSpec) and p.name == "steady"), None)
    if arrivals is None:
        yield f"{result.spec['load']}; the workload has no steady phase"
    elif not _same_load(result, arrivals):
        yield f"{result.spec['load']}; here {_in_words(arrivals)}"
    yield from _differing_requests(result, card, workload.requests)


def _differing_requests(result: PublishedResult, card: Scorecard | None, requests: Requests) -> Iterator[str]:
    """Lengths are compared as they were answered: a model may end its answer before the declared length, which is the most it may have."""
    if requests.input_tokens is None:
        yield "the tool's prompts; here the workload's own"
    else:
        yield from _differing_lengths("prompts", result.spec.get("input_tokens"), _length(card, "input", requests.input_tokens))
    yield from _differing_lengths("answers", result.spec.get("output_tokens"), _length(card, "output", requests.output_tokens))
    if requests.turns is not None:
        yield f"single requests, as far as the file says; here conversations of up to {requests.turns.count} turns"
    if requests.shared_prefix is not None:
        yield f"prompts without a declared prefix; here {requests.shared_prefix.tokens} shared tokens"


def _length(card: Scorecard | None, kind: str, declared: Tokens) -> float:
    """Mean tokens as the server read or answered them; as declared where nothing was measured."""
    tokens, finished = _measured(card, f"{kind}_token_throughput"), _measured(card, "request_throughput")
    return tokens / finished if tokens and finished else mean_tokens(declared)


def _differing_lengths(title: str, there: Scalar, here: float) -> Iterator[str]:
    if not isinstance(there, (int, float)):
        yield f"{title} of an unknown length; here {here:.4g} tokens"
    elif abs(there / here - 1) > SAME_LENGTH:
        yield f"{title} of {there:.4g} tokens on average; here {here:.4g}"


def _same_load(result: PublishedResult, arrivals: Arrivals) -> bool:
    kind, rate = result.spec.get("load.kind"), result.spec.get("load.rate")
    if result.spec.get("load.varies") is not None:
        return False
    if arrivals.closed is not None:
        return kind == "closed" and result.spec.get("load.concurrency") == arrivals.closed.users and not arrivals.closed.think
    process = arrivals.poisson or arrivals.constant or arrivals.gamma
    if process is None or kind != "open" or not isinstance(rate, (int, float)) or abs(rate / process.rate - 1) > SAME_RATE:
        return False
    cv = result.spec.get("load.cv")
    if arrivals.gamma is not None:
        return isinstance(cv, (int, float)) and abs(cv / arrivals.gamma.cv - 1) <= SAME_RATE
    return cv is None and result.spec.get("load.arrivals") == arrivals.process


def _in_words(arrivals: Arrivals) -> str:
    if arrivals.closed is not None:
        return f"a closed loop of {arrivals.closed.users} users"
    process = arrivals.poisson or arrivals.constant or arrivals.gamma
    return f"{arrivals.process.replace('_', '/')} arrivals" + (f" at {process.rate:g} requests/s" if process is not None else "")
