"""How drift speaks of numbers: one way everywhere, so that a message, a table and a report never differ."""

from __future__ import annotations

from plumbline.drift.compare import MetricComparison

_SHORT = {
    "matmul_tflops": "matmul",
    "memory_bandwidth": "memory bandwidth",
    "disk_write_bandwidth": "disk",
    "all_reduce_bus_bandwidth": "all-reduce",
    "inter_node_all_reduce_bus_bandwidth": "all-reduce between nodes",
}


def percent(fraction: float, digits: int = 1) -> str:
    """`+91 %`, `−8.2 %`: a decimal only below ten per cent, a real minus sign."""
    value = 100 * fraction
    text = f"{abs(value):.{0 if round(abs(value), digits) >= 10 else digits}f}"
    return f"{'−' if value < 0 and float(text) else '+'}{text} %"


def change(row: MetricComparison) -> str:
    """The effect of a row: `+91 %`, or `+2.0 points` / `+3 s` where ratios mean nothing."""
    return "no value" if row.effect is None else _amount(row.effect, row)


def interval(row: MetricComparison, confidence: float) -> str:
    """`95 %: +80 … +104`, or why there is none."""
    level = f"{100 * confidence:g} %"
    if row.ci_low is None or row.ci_high is None:
        return f"no {level} interval from {row.n_baseline} + {row.n_candidate} repeats"
    low, high = (_amount(end, row).removesuffix(" %") for end in (row.ci_low, row.ci_high))
    return f"{level}: {low} … {high}"


def name(row: MetricComparison, lead_statistic: str) -> str:
    """The metric as a headline names it; the statistic and the phase only where they are not the usual ones."""
    statistic = "" if row.statistic == lead_statistic else f"{row.statistic} "
    return f"{statistic}{row.metric}" + ("" if row.phase == "steady" else f" in {row.phase}")


def parsed(named: str) -> tuple[str, str | None, str]:
    """Metric, statistic (None: the metric's usual one) and phase of what `name` made."""
    said, _, phase = named.partition(" in ")
    statistic, _, metric = said.rpartition(" ")
    return metric, statistic or None, phase or "steady"


def short(metric: str) -> str:
    """A hardware probe's everyday name."""
    product = metric.removeprefix("matmul_tflops_")
    return f"matmul in {product}" if product != metric else _SHORT.get(metric, metric.replace("_", " "))


def repeats_needed(row: MetricComparison) -> str:
    """What would settle a doubt, in words; empty if there is no doubt."""
    if row.verdict not in ("suspected", "insufficient_data"):
        return ""
    if row.repeats_needed is None:
        return "no affordable number of repeats settles it: the metric scatters too much for its threshold"
    plural = "s" if row.repeats_needed > 1 else ""
    if row.repeats_where == "both":
        return f"{row.repeats_needed} more repeat{plural} on each side would settle it"
    return f"{row.repeats_needed} more repeat{plural} would settle it"


def _amount(value: float, row: MetricComparison) -> str:
    if row.scale != "difference":
        return percent(value)
    if row.unit == "ratio":
        return percent(value).removesuffix(" %") + " points"
    return f"{'−' if value < 0 else '+'}{abs(value):.3g} {row.unit}"
