"""A scorecard's numbers as shares of published figures for the same accelerator and of the hardware's limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.references import AcceleratorSheet, PublishedFigure, References
from plumbline.kinds import kind_of

SAME = 0.02
"""Relative difference up to which two shapes count as the same: publishers round the number of parameters."""
NEAR = 0.25
"""Relative difference in parameters up to which a published shape is named at all, with what differs."""


@dataclass(frozen=True)
class ReferenceShare:
    """One number of the card against one reference; `published`, `measured` in the metric's unit.

    `what`: the model whose figure is published, or the part of the hardware. `share`, `low`, `high`: fractions of the reference (1: as good,
    above 1: better), None where `differs` says how the published shape differs. `kind` physical: a limit that no program passes.
    """

    what: str
    published: float
    share: float | None
    low: float | None
    high: float | None
    source: str
    on: date | None
    kind: Literal["published", "physical"]
    metric: str
    by: str
    measured: float
    n: int
    trials: tuple[str, ...]
    differs: tuple[str, ...] = ()
    simulated: bool = False
    of_a_shape: bool = False


def reference_shares(card: Scorecard, references: References, provider: Provider, workload: AnyWorkload) -> tuple[ReferenceShare, ...]:
    """The card's shares of published figures, then of physical limits. Pure; empty where nothing is known of the accelerator.

    A published figure is compared in its publisher's convention and counts if accelerator, count, parameters, sequence length, batch, precision and load are the same. If none does, the
    nearest ones are named, without a share. `provider` and `workload`: as they were when the card was measured.
    """
    sheet = references.sheet_of(provider.accelerator.product)
    return (*_published(card, references, sheet, workload, _pooled_accelerators(workload, provider)), *_physical(card, sheet, workload))


def _published(
    card: Scorecard, references: References, sheet: AcceleratorSheet | None, workload: AnyWorkload, together: int
) -> list[ReferenceShare]:
    if sheet is None:
        return []
    figures: list[tuple[PublishedFigure, Row, tuple[str, ...]]] = []
    for entry in references.published:
        row = card.row(entry.compared_with)
        if entry.accelerator == sheet.name and entry.kind in (card.kind, "hardware") and row is not None and row.value:
            differs = _differs(entry, workload, together)
            if differs is not None:
                figures.append((entry, row, differs))
    exact = [(e, r, d) for e, r, d in figures if not d]
    of_shape = [(e, r, d) for e, r, d in figures if e.shape is not None]
    if not any(e.shape is not None for e, _, _ in exact) and of_shape:
        fewest = min(len(d) for _, _, d in of_shape)
        exact += [(e, r, d) for e, r, d in of_shape if len(d) == fewest]
    return [_share(card, entry, row, differs) for entry, row, differs in exact]


def _share(card: Scorecard, entry: PublishedFigure, row: Row, differs: tuple[str, ...]) -> ReferenceShare:
    each = tuple(None if differs else _ratio(row, value, entry.amount) for value in (row.value, row.low, row.high))
    low, high = (each[1], each[2]) if row.direction == "higher_is_better" else (each[2], each[1])
    what = entry.shape.model if entry.shape else _words(row.metric)
    return ReferenceShare(
        what, entry.amount, each[0], low, high, entry.source, entry.on, "published", row.metric, entry.by,
        row.value or 0.0, row.n, row.trials, differs, card.simulated, entry.shape is not None,
    )  # fmt: skip


def _ratio(row: Row, value: float | None, reference: float) -> float | None:
    """More than 1 is better than the reference, whichever side is the better one."""
    if not value:
        return None
    return value / reference if row.direction == "higher_is_better" else reference / value


def _differs(entry: PublishedFigure, workload: AnyWorkload, together: int) -> tuple[str, ...] | None:
    """In what a published figure is of something else than the workload, in words; None if it is too far away to be named."""
    if entry.shape is None:
        return () if entry.count in (1, together) else None
    shape, here = entry.shape, _parameters(workload)
    if here is None or abs(here / shape.parameters - 1) > NEAR:
        return None
    differences = []
    if abs(here / shape.parameters - 1) > SAME:
        differences.append(f"{shape.parameters / 1e9:.2f} billion parameters, here {here / 1e9:.2f}")
    if shape.precision != (precision := workload.number_format):
        differences.append(f"{shape.precision}, here {precision}")
    if entry.count != together:
        differences.append(f"{entry.count} accelerators together, here {together}")
    differences += kind_of(workload).differences(workload, shape)
    return tuple(differences)


def _pooled_accelerators(workload: AnyWorkload, provider: Provider) -> int:
    """Accelerators whose results a trial adds up: those of one model, times its replicas."""
    return workload.devices * workload.replicas_on(provider.accelerator.count)


def _parameters(workload: AnyWorkload) -> int | None:
    parameters = getattr(getattr(workload, "model", None), "parameters", None)
    return parameters if isinstance(parameters, int) else None


_OWN_LIMITS = {
    "model_flops_utilization": "model_flops",
    "prefill_flops_utilization": "prefill_flops",
    "model_bandwidth_utilization": "memory_bandwidth",
}
"""Metrics that are a share of a limit that the trial itself probed, and the metric that the limit is one of."""
_WORDS = {
    "model_flops": "arithmetic of the model",
    "prefill_flops": "arithmetic of the prompts",
    "model_bandwidth_utilization": "reading weights and keys while decoding",
    "memory_bandwidth": "copying in memory",
    "all_reduce_bus_bandwidth": "all-reduce",
}
_OF_PRECISION = {"matmul_tflops": "bf16", **{f"matmul_tflops_{p}": p for p in ("fp32", "tf32", "bf16", "fp16", "fp8")}}


def _words(metric: str) -> str:
    if metric in _OF_PRECISION:
        return f"matrix products in {_OF_PRECISION[metric]}"
    return _WORDS.get(metric, metric.replace("_", " "))


def _physical(card: Scorecard, sheet: AcceleratorSheet | None, workload: AnyWorkload) -> Iterator[ReferenceShare]:
    for name, of in _OWN_LIMITS.items():
        row, limited = card.row(name), card.row(of)
        if row is None or not row.value or limited is None or not limited.value:
            continue
        memory = of == "memory_bandwidth"
        limit = limited.value if memory else limited.value / row.value
        probed = f"the machine's own probe of {'memory' if memory else 'matrix products'}"
        yield _limit(card, row, _words(name if memory else of), of, limit, probed, None, "this machine", limit)
    if sheet is None:
        return
    for name, rate in _limits(card, sheet, workload).items():
        row = card.row(name)
        if row is not None and row.value and rate is not None:
            yield _limit(card, row, _words(name), name, rate, sheet.source, sheet.on, sheet.manufacturer, 1.0)


def _limits(card: Scorecard, sheet: AcceleratorSheet, workload: AnyWorkload) -> dict[str, float | None]:
    """By metric, the rate that the data sheet allows; of a model's arithmetic that of all devices together."""
    precision = workload.number_format
    peak = None if precision is None else sheet.flops(precision)
    limits = dict.fromkeys(("model_flops", "prefill_flops"), None if peak is None else peak * workload.devices)
    probes = [name for name in _OF_PRECISION if name != "matmul_tflops" or card.row("matmul_tflops_bf16") is None]  # the two are one
    return {**limits, **{name: sheet.flops(_OF_PRECISION[name]) for name in probes}, "memory_bandwidth": sheet.bytes_per_second}


def _limit(
    card: Scorecard, row: Row, what: str, metric: str, limit: float, source: str, on: date | None, by: str, unit: float
) -> ReferenceShare:
    """The row as a share of `limit`. `unit`: what one of the row is in the limit's unit: the limit itself if the row is a share already."""
    share, low, high = (None if value is None else value * unit / limit for value in (row.value, row.low, row.high))
    measured = (row.value or 0.0) * unit
    return ReferenceShare(
        what, limit, share, low, high, source, on, "physical", metric, by, measured, row.n, row.trials, (), card.simulated
    )
