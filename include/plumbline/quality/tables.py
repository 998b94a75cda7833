"""Result documents as tables, one row an attempt, and the possible range of each metric."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.metrics import METRICS
from plumbline.results import MetricRow
from plumbline.results.launch_record import GANG_NODES, gang_metric


@dataclass(frozen=True)
class Range:
    """`low` itself is allowed unless `above` (strictly above low)."""

    low: float
    high: float
    above: bool = True

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        return f"{'above' if self.above else 'at least'} {self.low:g} and at most {self.high:g}"


_DAY_S = 86400.0
# Upper ends are far above what any machine does today: they catch a wrong unit or a broken clock, not a good machine.
_BY_UNIT: dict[str, Range] = {
    "s": Range(0.0, _DAY_S),
    "1/s": Range(0.0, 1e7),
    "tokens/s": Range(0.0, 1e10),
    "samples/s": Range(0.0, 1e9),
    "ratio": Range(0.0, 1.0, above=False),
    "count": Range(0.0, 1e12, above=False),
    "1": Range(-1e6, 1e6),
    "bytes": Range(0.0, 1e15),
    "bytes/s": Range(0.0, 1e14),
    "FLOP/s": Range(0.0, 1e20),
    "W": Range(0.0, 1e7),
    "J": Range(0.0, 1e9),
    "USD": Range(0.0, 1e7, above=False),
}
_OWN: dict[str, Range] = {
    # Something that costs hardly anything at all lengths falls a little as likely as it rises; nothing grows with such a power.
    "prefill_growth_exponent": Range(-2.0, 10.0),
    "first_token_growth_exponent": Range(-2.0, 10.0),
    "inter_token_latency_growth": Range(0.0, 1e6),
    # A quiet phase on one machine.
    **dict.fromkeys(("network_received_bytes", "network_sent_bytes", "response_bytes"), Range(0.0, 1e18, above=False)),
    # Nothing is left to learn once every answer is right.
    "final_loss": Range(0.0, 1e3, above=False),
    "training_loss": Range(0.0, 1e3, above=False),
    "log_probability_difference": Range(0.0, 1e3, above=False),
    "perplexity": Range(0.0, 1e9),
    "perplexity_ratio": Range(0.0, 1e9),
    # The matmul probe that it is measured against is itself a measurement: a little above 1 is its noise.
    "model_flops_utilization": Range(0.0, 1.2),
    "model_flops_utilization_full_attention": Range(0.0, 2.0),
    "prefill_flops_utilization": Range(0.0, 1.2),
    # Small weights stay in a cache, which is several times faster than the memory that was probed.
    "model_bandwidth_utilization": Range(0.0, 10.0),
    # CPU time and wall time are read one after the other, and a process has helpers.
    "client_cpu_utilization": Range(0.0, 1.5, above=False),
}
# What may truly take no time, or be nothing at all: work that did not have to wait, an SLO that no request met, a server that was dead
# for a whole phase.
_MAY_BE_ZERO = frozenset(
    {
        "checkpoint_blocking_time",
        "compute_time",
        "data_wait_time",
        "delivery_time",
        *map(gang_metric, GANG_NODES),
        "goodput",
        "idle_replica_time",
        "image_pull_time",
        "input_token_throughput",
        "inter_token_latency",
        "memory_growth_per_sequence",
        "output_token_throughput",
        "pod_scheduling_time",
        "queue_time",
        "request_dispatch_delay",
        "request_throughput",
        "restart_recompute_time",
        "time_per_output_token",
        "time_to_recover",
        "time_to_scale_in",
        "time_to_scale_out",
    }
)


def range_of(metric: str, statistic: str) -> Range:
    """The possible values of a metric's statistic, in the metric's unit (a `cv` is a plain ratio)."""
    if statistic == "cv":
        return Range(0.0, 1e3, above=False)
    bounds = _OWN.get(metric) or _BY_UNIT[METRICS[metric].unit]
    if statistic == "stddev" or metric in _MAY_BE_ZERO:
        return Range(bounds.low, bounds.high, above=False)
    return bounds


def interval_is_valid(row: MetricRow) -> bool:
    """Whether a row's confidence interval is one: both ends or none, in order, around the value."""
    if row.ci_low is None and row.ci_high is None:
        return True
    if row.ci_low is None or row.ci_high is None or row.value is None:
        return False
    return row.ci_low <= row.value <= row.ci_high
