"""`references.yaml`: data sheets of accelerators and published figures that scorecards compare with."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.workloads.training import TrainingPrecision
from plumbline.declarations.workloads.workload import parse_metric_value
from plumbline.metrics import Metric, metric

ReferencePrecision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4"]
Source = Annotated[str, Field(min_length=8, description="the source: a publication, a round, a data sheet")]

ATTENTION_METRICS = ("model_flops", "model_flops_utilization", "model_flops_utilization_of_published_peak")
"""Metrics with two conventions. Each has a twin whose name ends in `_full_attention`."""


class Peak(Declared):
    """A data sheet's rate of dense matrix products of one device."""

    precision: TrainingPrecision
    rate: str = Field(description="such as 989.4 TFLOP/s")

    @model_validator(mode="after")
    def _readable(self) -> Peak:
        _check_amount("rate", self.rate, metric("matmul_tflops"))
        return self

    @property
    def flops(self) -> float:
        """FLOP/s."""
        return parse_metric_value("FLOP/s", self.rate)


class AcceleratorSheet(Declared):
    """One accelerator by its manufacturer's data sheet. `products`: its names in drivers and node labels."""

    name: str = Field(min_length=2, max_length=40)
    manufacturer: str = Field(min_length=2)
    products: tuple[str, ...] = Field(min_length=1)
    peaks: tuple[Peak, ...] = Field(min_length=1)
    memory_bandwidth: str = Field(description="of one device, such as 3.35 TB/s")
    source: Source
    on: date = Field(description="the day of the source, or of its retrieval")

    @model_validator(mode="after")
    def _readable(self) -> AcceleratorSheet:
        _check_amount("memory_bandwidth", self.memory_bandwidth, metric("memory_bandwidth"))
        if len({p.precision for p in self.peaks}) != len(self.peaks):
            raise ValueError("peaks names a precision twice; expected one rate each")
        return self

    @property
    def bytes_per_second(self) -> float:
        """Memory bandwidth in bytes/s."""
        return parse_metric_value("bytes/s", self.memory_bandwidth)

    def flops(self, precision: str) -> float | None:
        """The published rate at a precision, in FLOP/s, or None."""
        return next((p.flops for p in self.peaks if p.precision == precision), None)

    def matches_product(self, product: str | None) -> bool:
        """Whether a device that reports this name is of this kind."""
        return product is not None and _normalized_product(product) in map(_normalized_product, self.products)


class WorkloadShape(Declared):
    """The published workload. `sequence`: tokens of a trained sequence. `batch`: samples of one step. `load`: the arrivals in the publisher's words."""

    model: str = Field(min_length=2)
    parameters: int = Field(ge=1_000, description="weights, embeddings and head included")
    precision: ReferencePrecision
    sequence: int | None = Field(None, ge=1)
    batch: int | None = Field(None, ge=1)
    load: str | None = None


class PublishedFigure(Declared):
    """One published figure; without a `shape`, of the hardware alone."""

    name: Name
    accelerator: str = Field(description="the name of one of accelerators")
    count: int = Field(1, ge=1, description="accelerators that worked together")
    kind: Literal["training", "inference", "hardware"]
    shape: WorkloadShape | None = None
    metric: str
    value: str = Field(description="with its unit, such as 10682 tokens/s")
    attention: Literal["causal", "full"] | None = Field(
        None, description="of a training's FLOPs: full if the publisher counts unmasked attention, as NVIDIA does"
    )
    by: str = Field(min_length=2, description="the publisher")
    source: Source
    on: date
    note: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> PublishedFigure:
        try:
            known = metric(self.metric)
        except KeyError as error:
            raise ValueError(f"metric {error.args[0]}") from None
        _check_amount("value", self.value, known)
        if known.direction == "informative":
            raise ValueError(f"metric {known.name} has no better direction; expected one that has")
        if (self.attention is not None) != (self.metric in ATTENTION_METRICS):
            if self.attention is None:
                raise ValueError(f"attention is missing with metric {self.metric}; expected causal or full")
            raise ValueError(
                f"attention {self.attention} with metric {self.metric}; expected it with one of {', '.join(ATTENTION_METRICS)} alone"
            )
        if (self.kind == "hardware") != (self.shape is None):
            raise ValueError(
                f"kind {self.kind} {'with' if self.shape else 'without'} a shape; expected a shape of training or inference alone"
            )
        return self

    @property
    def compared_with(self) -> str:
        """The metric with the publisher's convention."""
        return f"{self.metric}_full_attention" if self.attention == "full" else self.metric

    @property
    def amount(self) -> float:
        """The figure in the metric's unit."""
        return parse_metric_value(metric(self.metric).unit, self.value)


class References(Declared):
    """The file `config/references.yaml`."""

    accelerators: tuple[AcceleratorSheet, ...] = ()
    published: tuple[PublishedFigure, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> References:
        for field, names in (
            ("accelerators", [a.name for a in self.accelerators]),
            ("published", [p.name for p in self.published]),
            ("accelerators.products", [_normalized_product(product) for a in self.accelerators for product in a.products]),
        ):
            if twice := [name for name, times in Counter(names).items() if times > 1]:
                raise ValueError(f'"{twice[0]}" stands in {field} twice; expected a name of its own')
        known = [a.name for a in self.accelerators]
        for entry in self.published:
            if entry.accelerator not in known:
                raise ValueError(
                    f'"{entry.accelerator}" of {entry.name} is none of accelerators; expected one of {", ".join(known) or "(none)"}'
                )
        return self

    def sheet_of(self, product: str | None) -> AcceleratorSheet | None:
        """The data sheet of a device by the name that it reports, or None."""
        return next((a for a in self.accelerators if a.matches_product(product)), None)


def _check_amount(field: str, text: str, known: Metric) -> None:
    try:
        amount = parse_metric_value(known.unit, text)
    except ValueError as error:
        raise ValueError(f"{field} {error}") from None
    if amount <= 0:
        raise ValueError(f'{field} "{text}" is not above 0; expected what {known.name} was, in {known.unit}')


def _normalized_product(product: str) -> str:
    """Node labels write dashes where drivers write spaces."""
    return " ".join(product.replace("-", " ").replace("_", " ").lower().split())
