"""Common parts of training and inference workloads: repeats, slots, criteria, primary metric, drift thresholds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.workloads.kind_defaults import KindDefaults
from plumbline.metrics import METRICS, PHASES, STATISTICS, Metric, Phase, Unit, UnknownMetric, is_of_provider, metric, units
from plumbline.metrics.formatting import common_scale, format_limit
from plumbline.metrics.proportions import (
    CONFIDENCE,
    QUANTILES,
    min_observations_for_interval,
    min_observations_for_quantile,
    min_successes_to_prove,
)
from plumbline.metrics.units import Percent

if TYPE_CHECKING:
    from typing_extensions import Self


CRITERION_SHAPE = "[STATISTIC] METRIC <=|>= VALUE in PHASE, such as: p95 request_scheduled_latency <= 900ms in steady"
_CRITERION = re.compile(
    r"^\s*(?:(?P<statistic>[a-z]\w*)\s+)?(?P<metric>[a-z][a-z0-9_]*)\s*(?P<op><=|>=)\s*(?P<value>.+?)(?:\s+in\s+(?P<phase>[a-z_]+))?\s*$"
)
RELATIVE_SHAPE = "[STATISTIC] METRIC within PERCENT% of baseline|provider NAME in PHASE, such as: goodput within 10% of baseline in steady"
_RELATIVE = re.compile(
    r"^\s*(?:(?P<statistic>[a-z]\w*)\s+)?(?P<metric>[a-z][a-z0-9_]*)\s+within\s+(?P<within>\d\d?(?:\.\d+)?)\s*%\s+of\s+"
    r"(?:baseline|provider\s+(?P<provider>[a-z0-9-]+))\s+in\s+(?P<phase>[a-z_]+)\s*$"
)
PROVIDER_PHASE: Phase = "steady"
"""Where a number of a provider stands beside those of trials."""
REQUEST_SHARES = {"goodput_ratio": ">=", "error_rate": "<="}
"""Metrics that are a share of the requests, and the side on which a criterion limits them."""
PER_REQUEST_LATENCIES = frozenset(
    {"time_to_first_token", "time_per_output_token", "request_latency", "request_scheduled_latency", "request_dispatch_delay"}
)
"""Latencies with one value for each request that was due, infinite for one that failed."""
_PERCENTILE_RANK = {"min": 0.0, "p50": 50.0, "median": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


CATALOGUE = "catalogue"
"""Key of a validation's context: the catalogue with the metrics that the declared workloads add."""


def catalogue_of(info: ValidationInfo) -> Mapping[str, Metric]:
    """The metrics that a line may name: those of the workload that is read, else of the context, else of the catalogue alone."""
    task = (info.data or {}).get("task")
    own: Mapping[str, Metric] | None = getattr(task, "catalogue", None)
    return own if own is not None else (info.context or {}).get(CATALOGUE, METRICS)


class NamesMetric(Declared):
    """Base of a line about a metric, which may be a workload's own."""

    if TYPE_CHECKING:
        metric: str
    _own: Metric | None = PrivateAttr(None)

    def model_post_init(self, context: Any) -> None:
        """Remember the metric, if it is not of the catalogue but of the declared workloads."""
        self._take((context or {}).get(CATALOGUE, METRICS))

    def _take(self, catalogue: Mapping[str, Metric]) -> None:
        if self.metric not in METRICS and self.metric in catalogue:
            self._own = catalogue[self.metric]

    @property
    def known(self) -> Metric:
        """The metric. UnknownMetric for one that neither the catalogue nor the workload has."""
        return self._own or metric(self.metric)


_Names = TypeVar("_Names", bound=NamesMetric)


def with_metric(line: _Names, info: ValidationInfo) -> _Names:
    """The line of a workload, which knows the workload's own metric."""
    line._take(catalogue_of(info))
    return line


class Criterion(NamesMetric):
    """One acceptance criterion. `limit` is in the metric's unit (seconds, per second, fraction …)."""

    text: str
    metric: str
    statistic: str
    op: Literal["<=", ">="]
    limit: float
    phase: str

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: object, info: ValidationInfo) -> object:
        return parse_criterion(value, catalogue_of(info)) if isinstance(value, str) else value

    def met_by(self, value: float) -> bool:
        """Whether a measured value (in the metric's unit) meets the limit."""
        return value <= self.limit if self.op == "<=" else value >= self.limit


class RelativeCriterion(NamesMetric):
    """One acceptance criterion whose limit a reference sets: the accepted baseline of the provider's series, or the newest comparable result
    of `provider`. `within`: the fraction by which a value may be worse."""

    text: str
    metric: str
    statistic: str
    op: Literal["<=", ">="]
    within: float = Field(ge=0, lt=1)
    provider: Name | None = None
    phase: str

    def limited_by(self, reference: float, source: str) -> Criterion:
        """The criterion with the limit that a reference, in the metric's unit, sets; its text has both."""
        limit = reference + self.within * abs(reference) * (1 if self.op == "<=" else -1)
        scale = common_scale(self.known.unit, [limit, reference], self.metric)
        origin = f"within {format_limit(self.within)} of {scale.text(reference)}, {source}"
        text = f"{self.text.partition(' within ')[0]} {self.op} {scale.text(limit)} in {self.phase} ({origin})"
        limited = Criterion(**self.model_dump(exclude={"text", "within", "provider"}), text=text, limit=limit)
        limited._own = self._own
        return limited


def _parse(value: object, info: ValidationInfo) -> object:
    if isinstance(value, dict | Declared):
        return value
    return (_parse_relative_criterion if "within" in str(value).split() else parse_criterion)(str(value), catalogue_of(info))


_Criterion = TypeVar("_Criterion", bound=Criterion | RelativeCriterion)


def measured_by_trials(criterion: _Criterion) -> _Criterion:
    """The criterion; ValueError for a metric that no trial measures."""
    if is_of_provider(criterion.metric):
        raise ValueError(f'"{criterion.text}": {criterion.metric} is of the provider, not of a trial; {_IN_TEAMS}')
    return criterion


_IN_TEAMS = "expected it in the weights or gates of a team"
AnyCriterion = Annotated[
    Criterion | RelativeCriterion, BeforeValidator(_parse), AfterValidator(measured_by_trials), AfterValidator(with_metric)
]


def _parse_relative_criterion(line: str, catalogue: Mapping[str, Metric]) -> dict[str, object]:
    match = _RELATIVE.match(line)
    if match is None:
        raise ValueError(f'"{line}" is not a criterion; expected {RELATIVE_SHAPE}')
    known, fields = _named_number(match, line, catalogue)
    if known.direction == "informative" or known.group == "cost":
        why = "follows its price" if known.group == "cost" else "has no better direction"
        raise ValueError(f'"{line}": {known.name} {why}; expected a measured metric that has a better direction')
    op, within = "<=" if known.direction == "lower_is_better" else ">=", float(match["within"]) / 100
    return {**fields, "op": op, "within": within, "provider": match["provider"]}


def parse_criterion(line: str, catalogue: Mapping[str, Metric] = METRICS) -> dict[str, object]:
    """The fields of one criterion, whose metric is of the catalogue. ValueError."""
    match = _CRITERION.match(line)
    if match is None:
        raise ValueError(f'"{line}" is not a criterion; expected {CRITERION_SHAPE}')
    known, fields = _named_number(match, line, catalogue)
    if (fields["phase"] is None) is not known.of_provider:
        raise ValueError(
            f'"{line}" is not a criterion; expected {f"{known.name} without a phase" if known.of_provider else CRITERION_SHAPE}'
        )
    return {
        **fields,
        "phase": fields["phase"] or PROVIDER_PHASE,
        "op": match["op"],
        "limit": parse_metric_value(known.unit, match["value"]),
    }


def _named_number(match: re.Match[str], line: str, catalogue: Mapping[str, Metric]) -> tuple[Metric, dict[str, object]]:
    """The metric that a line names, and the fields text, metric, statistic and phase. ValueError."""
    try:
        known = metric(match["metric"], catalogue)
    except UnknownMetric as error:
        raise UnknownMetric(f'{error.args[0]} (in "{line}")') from None
    statistic, phase = match["statistic"] or known.statistic, match["phase"]
    if statistic not in STATISTICS:
        raise ValueError(f'unknown statistic "{statistic}" in "{line}"; expected one of {", ".join(STATISTICS)}')
    if phase is not None and phase not in PHASES:
        raise ValueError(f'unknown phase "{phase}" in "{line}"; expected one of {", ".join(PHASES)}')
    return known, {"text": " ".join(line.split()), "metric": known.name, "statistic": statistic, "phase": phase}


def parse_metric_value(unit: Unit, text: str) -> float:
    """A criterion's value in the unit of its metric; ValueError for another unit."""
    scales: dict[str, tuple[dict[str, float], str, str]] = {
        "s": (units.SECONDS, "a duration", "900ms"),
        "1/s": (units.PER_SECOND, "a rate", "8/s"),
        "ratio": ({**units.FRACTION, "": 1.0}, "a percentage or a plain ratio", "99%"),
        "bytes": (units.BYTES, "a size", "8GiB"),
        "tokens/s": ({"tokens/s": 1.0}, "a token rate", "350tokens/s"),
        "samples/s": ({"samples/s": 1.0}, "a sample rate", "40samples/s"),
        "bytes/s": ({f"{name}/s": factor for name, factor in units.BYTES.items()}, "a bandwidth", "20GB/s"),
        "FLOP/s": ({"GFLOP/s": 1e9, "TFLOP/s": 1e12}, "an arithmetic rate", "400TFLOP/s"),
        "USD": ({"USD": 1.0}, "an amount", "4.20USD"),
        "W": ({"W": 1.0, "kW": 1e3}, "a power", "700W"),
        "J": ({"J": 1.0, "kJ": 1e3}, "an energy", "2J"),
        "count": ({"": 1.0}, "a count", "10"),
        "1": ({"": 1.0}, "a plain number", "1.5"),
        "nats": ({"": 1.0, "nats": 1.0}, "a loss", "2.5"),
    }
    table, what, example = scales[unit]
    if "" in table and re.fullmatch(r"[+-]?\d+(\.\d+)?", text.strip()):
        return float(text)
    return units.parse(text, table, what, example)


def find_contradiction(criteria: Iterable[Criterion | RelativeCriterion]) -> str | None:
    """Why criteria contradict each other, or None.

    An upper limit of a high percentile below that of a lower one (p99 <= 500ms with p50 <= 900ms) makes the lower one pointless.
    """
    seen = [c for c in criteria if isinstance(c, Criterion)]  # the limit of a relative one is not known
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            if (a.metric, a.phase) != (b.metric, b.phase):
                continue
            if a.statistic == b.statistic and a.op == b.op:
                return f'"{a.text}" and "{b.text}" limit the same statistic twice; expected one criterion each'
            if a.op == b.op and a.statistic in _PERCENTILE_RANK and b.statistic in _PERCENTILE_RANK:
                low, high = sorted((a, b), key=lambda c: _PERCENTILE_RANK[c.statistic])
                if _PERCENTILE_RANK[low.statistic] < _PERCENTILE_RANK[high.statistic] and high.limit < low.limit:
                    return (
                        f'"{high.text}" is below "{low.text}"; expected the limit of {high.statistic} at or above that of {low.statistic}'
                    )
            if {a.op, b.op} == {"<=", ">="}:
                upper, lower = (a, b) if a.op == "<=" else (b, a)
                # A lower limit of a percentile applies to all higher ones too.
                same = a.statistic == b.statistic or _PERCENTILE_RANK.get(lower.statistic, 101) <= _PERCENTILE_RANK.get(upper.statistic, -1)
                if same and upper.limit < lower.limit:
                    return f'"{upper.text}" and "{lower.text}" cannot both be met; expected an upper limit above the lower one'
    return None


def insufficient_observations(criterion: Criterion | RelativeCriterion, n: int) -> str | None:
    """Why `n` observations cannot decide a criterion on a tail, and how many could; else None.

    A percentile needs an observation beyond it. A share needs room for one miss: 99 % of 41 requests is all of them.
    """
    percent = f"{CONFIDENCE:.0%}".replace("%", " %")
    if (q := QUANTILES.get(criterion.statistic)) is not None and n < min_observations_for_quantile(q):
        what = "requests" if criterion.metric in PER_REQUEST_LATENCIES else "observations"
        return (
            f"{criterion.statistic} needs at least {min_observations_for_quantile(q)} {what} for a value and {min_observations_for_interval(q)} for "
            f"a {percent} interval; {n} were measured"
        )
    if isinstance(criterion, Criterion) and REQUEST_SHARES.get(criterion.metric) == criterion.op:
        share = criterion.limit if criterion.op == ">=" else 1 - criterion.limit
        if 0 < share < 1 and n < min_observations_for_quantile(share):
            return (
                f"{criterion.metric} {criterion.op} {100 * criterion.limit:g} % needs at least {min_observations_for_quantile(share)} requests to allow for "
                f"one that misses it, and {min_successes_to_prove(share)} without any to be proven at {percent}; {n} were measured"
            )
    return None


def refused_run_cost(metrics: Iterable[str]) -> str | None:
    """Why an inference workload is not judged by the cost of a run: its length is the benchmark's own, so it says nothing about a provider.
    None if no metric is one."""
    found = next((name for name in metrics if name in ("cost_per_run", "cost_per_finished_run")), None)
    return found and (
        f"{found} of inference is the benchmark's own length times the price; "
        "expected a cost of what is delivered, such as cost_per_good_request or cost_per_1m_output_tokens"
    )


PRIMARY_SHAPE = "[STATISTIC] METRIC [in PHASE], such as: p95 time_to_first_token in steady"
_PRIMARY = re.compile(r"^\s*(?:(?P<statistic>[a-z]\w*)\s+)?(?P<metric>[a-z][a-z0-9_]*)(?:\s+in\s+(?P<phase>[a-z_]+))?\s*$")


class Primary(NamesMetric):
    """The main number of a scorecard. `phase` None: the leading phase of the metric."""

    text: str
    metric: str
    statistic: str
    phase: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: object, info: ValidationInfo) -> object:
        return parse_primary(value, catalogue_of(info)) if isinstance(value, str) else value


def parse_primary(line: str, catalogue: Mapping[str, Metric] = METRICS) -> dict[str, object]:
    """The fields of a `primary:`, whose metric is of the catalogue. ValueError."""
    match = _PRIMARY.match(line)
    if match is None:
        raise ValueError(f'"{line}" is not a primary metric; expected {PRIMARY_SHAPE}')
    known, fields = _named_number(match, line, catalogue)
    if known.direction == "informative" or known.of_provider:
        raise ValueError(
            f'"{line}": {known.name} {"is of the provider" if known.of_provider else "has no better direction"}; expected a metric that has one'
        )
    return fields


Slot = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description='a time of day in UTC, such as "02:00"')]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Needs(Declared):
    """Which providers can run the workload."""

    accelerator: Literal["cpu", "gpu", "nvidia", "amd"] = Field(description="gpu: NVIDIA's or AMD's")
    count: int = Field(1, ge=1, le=1024, description="minimum of accelerators (or cores) of a trial")
    whole_node: bool = Field(False, description="only providers whose nodes have exactly `count`")


class Repeats(Declared):
    """How often a campaign measures the workload on each provider: `per_slot` trials in each of `slots` (UTC)."""

    per_slot: int = Field(ge=1, le=50)
    slots: tuple[Slot, ...] = Field(min_length=1, max_length=24)

    @model_validator(mode="after")
    def _distinct(self) -> Repeats:
        if len(set(self.slots)) != len(self.slots):
            raise ValueError(f"slots {list(self.slots)} repeats a time; expected distinct times of day")
        return self


class DriftLimits(Declared):
    """Relative changes from which on a difference matters."""

    warn: Percent
    page: Percent

    @model_validator(mode="after")
    def _ordered(self) -> DriftLimits:
        if self.page < self.warn:
            raise ValueError(f"page {self.page:.3g} is below warn {self.warn:.3g}; expected page at or above warn")
        return self


def _check_metric_names(value: dict[str, DriftLimits], info: ValidationInfo) -> dict[str, DriftLimits]:
    for name in value:
        metric(name, catalogue_of(info))
    return value


LimitsByMetric = Annotated[dict[str, DriftLimits], AfterValidator(_check_metric_names)]
"""Thresholds by the name of a metric of the catalogue."""


class Workload(Declared, KindDefaults):
    """Base of both workload kinds. A change of anything that is measured needs a new `version`: it starts a new series."""

    name: Name
    version: int = Field(ge=1)
    description: str = ""
    needs: Needs
    providers: tuple[Name, ...] | None = Field(None, description="only these providers; every enabled one that fits if omitted")
    on_demand_only: bool = Field(False, description="planned only when named: in a request, or by a provider's `workloads`")
    months: tuple[Annotated[int, Field(ge=1, le=12)], ...] | None = Field(
        None, min_length=1, description="of the monthly rerun, such as [1, 4, 7, 10] for once a quarter; every month if omitted"
    )
    repeats: Repeats
    acceptance: tuple[AnyCriterion, ...] = ()
    primary: Annotated[Primary, AfterValidator(with_metric)] | None = Field(
        None, description="the main number, such as p95 time_to_first_token in steady; one that fits the task if omitted"
    )
    drift: LimitsByMetric = Field(default_factory=dict, description="thresholds by metric that differ from thresholds.yaml")

    @field_validator("acceptance")
    @classmethod
    def _no_contradiction(cls, value: tuple[AnyCriterion, ...]) -> tuple[AnyCriterion, ...]:
        problem = find_contradiction(value)
        if problem:
            raise ValueError(problem)
        return value

    def of_trial(self) -> Self:
        """The workload as its trials carry it, without `primary`, `months` and `whole_node`: they do not change the measurement, and an
        earlier harness would refuse them as unknown."""
        return self.model_copy(update={"primary": None, "months": None, "needs": self.needs.model_copy(update={"whole_node": False})})

    @property
    def gpus(self) -> int | None:
        """Accelerators that a trial holds on each of its nodes; None for all."""
        return self.needs.count

    @property
    def devices(self) -> int:
        """Accelerators that compute together, on all of its nodes."""
        return self.needs.count

    def devices_on(self, accelerators: int) -> int:
        """Accelerators that one trial keeps busy on a node that has so many."""
        return self.needs.count * self.replicas_on(accelerators)
