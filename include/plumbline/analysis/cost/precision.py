"""Precision as an economic lever: what an outcome costs in each precision of one model, with the measured difference in quality beside it.

Workloads belong together if they differ in the model's precision and in nothing else that is measured. A cheaper precision whose quality nobody
measured is shown as that: "not measured", never as equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.analysis.cost.unit_costs import AT_OFFERED_RATE, COSTS, Outcome, fitting_cost
from plumbline.analysis.trial_sample import SUSTAINED, TrialSample
from plumbline.declarations import AnyWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.kinds import kind_of
from plumbline.metrics import leading_names
from plumbline.metrics.pooling import Pooled, pool
from plumbline.metrics.units import Amount

FINEST = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4")
_NOT_MEASURED = frozenset(
    {
        "name",
        "version",
        "description",
        "precision",
        "quality",
        "evaluation",
        "acceptance",
        "drift",
        "repeats",
        "on_demand_only",
        "providers",
        "primary",
        "loss",
    }
)
"""Fields of a workload that change nothing but the precision, or how often and by what it is judged."""


@dataclass(frozen=True)
class QualityDifference:
    """The figures of a precision and of the `other` one that it is compared with; None: not measured. `spread`: the widest interval over
    the repeats of both, None of one repeat each. Without a run of its own for each seed it is unknown how much of a small difference is
    chance."""

    is_reference: bool
    own: float | None
    base: float | None
    spread: float | None
    other: str


@dataclass(frozen=True)
class PrecisionRow:
    """One precision. `cost`: USD for the lever's outcome over usable trials; None where no usable trial has it. `saving`: the share of the
    reference's cost that it saves, negative if it costs more. `quality`: the measured figure of `Lever.measure`, None if nobody measured it;
    `difference`: what it means beside the reference. `accuracy`: the share of the evaluation set's questions that are answered right."""

    precision: str
    workload: str
    version: int
    cost: Pooled | None
    saving: Amount | None
    quality: float | None
    difference: QualityDifference
    accuracy: float | None
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Lever:
    """The precisions of one model on one provider, the finest first. `measure`: `output_agreement` of inference, `final_loss` of training.
    `load`: at which load the cost is."""

    provider: str
    kind: str
    metric: str
    outcome: str
    measure: str
    reference: str
    load: str
    rows: tuple[PrecisionRow, ...]


def precision_levers(trials: Sequence[TrialSample], workloads: Mapping[str, AnyWorkload]) -> tuple[Lever, ...]:
    """A lever for each provider that ran at least two precisions of one model; empty where none did. `trials`: priced, of one campaign of each
    series; `workloads`: as they were measured, by name."""
    families: dict[tuple[str, str], list[AnyWorkload]] = {}
    for provider, name in sorted({(t.provider, t.workload) for t in trials if t.usable}):
        workload = workloads.get(name)
        if workload is not None and kind_of(workload).names_model:  # of a script it is not known what else differs
            families.setdefault((provider, family(workload)), []).append(workload)
    levers = (_lever(provider, trials, members) for (provider, _), members in families.items())
    return tuple(lever for lever in levers if lever is not None)


def family(workload: AnyWorkload) -> str:
    """Equal for workloads that differ in their precision alone. A quantised checkpoint has other files; it belongs to its reference."""
    plain: dict[str, Any] = {k: v for k, v in workload.model_dump(mode="json").items() if k not in _NOT_MEASURED}
    model: Any = getattr(workload, "model", None)
    if isinstance(model, Checkpoint):
        model = workload.reference_checkpoint or model
        plain["model"] = model.model_dump(mode="json", include={"source", "id", "revision", "url", "path"})
    else:
        plain["model"] = {k: v for k, v in plain["model"].items() if k != "precision"}
    return json.dumps(plain, sort_keys=True)


def precision_of(workload: AnyWorkload) -> str:
    """The precision of the served weights and arithmetic, or of the trained matrix products, of a workload that names its model."""
    return str(workload.number_format)


def _lever(provider: str, trials: Sequence[TrialSample], members: Sequence[AnyWorkload]) -> Lever | None:
    ordered = sorted(members, key=lambda w: FINEST.index(precision_of(w)))
    if len({precision_of(w) for w in ordered}) < 2:
        return None
    own = {w.name: [t for t in trials if t.usable and (t.provider, t.workload) == (provider, w.name)] for w in ordered}
    first = ordered[0]
    outcome = _outcome(first, own)
    declared = {w.reference_precision for w in ordered}
    reference = next((w for w in ordered if precision_of(w) in declared), first)
    measure, phase = ("output_agreement", "cold_start") if first.kind == "inference" else ("final_loss", "steady")
    amount = outcome.shown_amount
    times = amount / (outcome.amount or amount)
    costs = {name: _pooled(of, outcome.metric, outcome.phase, times) for name, of in own.items()}
    qualities = {name: _pooled(of, measure, phase) for name, of in own.items()}
    base_cost, base_quality = costs[reference.name], qualities[reference.name]
    rows = []
    for w in ordered:
        cost, quality = costs[w.name], qualities[w.name]
        saving = None if cost is None or base_cost is None or base_cost.value == 0 else 1 - cost.value / base_cost.value
        rows.append(
            PrecisionRow(
                precision=precision_of(w),
                workload=w.name,
                version=w.version,
                cost=cost,
                saving=saving,
                quality=None if quality is None else quality.value,
                difference=_quality(w, reference, measure, quality, base_quality),
                accuracy=None if (right := _pooled(own[w.name], "answer_accuracy", "cold_start")) is None else right.value,
                trials=tuple(t.trial_id for t in own[w.name]),
            )
        )
    outcomes = f"{amount:,.0f} {outcome.what}"
    return Lever(
        provider, first.kind, outcome.metric, outcomes, measure, precision_of(reference), _load(first.kind, outcome.sustained), tuple(rows)
    )


def _outcome(first: AnyWorkload, own: Mapping[str, Sequence[TrialSample]]) -> Outcome:
    """What the workload is paid for, of inference at the highest rate that keeps the SLO: an open loop costs the same in every precision.

    All of them at that rate, or none: one that was searched beside one that was not would look better than it is.
    """
    fitting = fitting_cost(first.kind, first.name, own[first.name])
    best = next((o for o in COSTS if o.metric == fitting), COSTS[0])
    if not best.sustained or all(t.value(SUSTAINED, "value", "sweep") is not None for of in own.values() for t in of):
        return best
    offered = [next(o for o in COSTS if o.metric == name + AT_OFFERED_RATE) for name in leading_names("inference_cost")]
    return next((o for o in offered if any(t.value(o.metric, "value", o.phase) is not None for t in own[first.name])), offered[0])


def _load(kind: str, searched: bool) -> str:
    if kind == "training":
        return "at the steady rate"
    if searched:
        return "at the highest rate that keeps the SLO"
    return "at the offered rate, equal for all precisions: not every trial searched the highest rate"


def _pooled(trials: Sequence[TrialSample], metric: str, phase: str, times: float = 1.0) -> Pooled | None:
    values = [v * times for t in trials if (v := t.value(metric, "value", phase)) is not None]
    return pool(values) if values else None


def _quality(w: AnyWorkload, reference: AnyWorkload, measure: str, own: Pooled | None, base: Pooled | None) -> QualityDifference:
    figures = tuple(each for each in (own, base) if each is not None)
    spread = max((p.high - p.low for p in figures if p.high is not None and p.low is not None), default=None)
    return QualityDifference(
        is_reference=w is reference,
        own=None if own is None else own.value,
        base=None if base is None else base.value,
        spread=spread,
        other=w.reference_precision or precision_of(reference) if measure == "output_agreement" else precision_of(reference),
    )
