"""Changes of a series in words: effects and intervals, its state in a campaign, what its past shows, and what explains a movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plumbline.analysis.drift.attribution import Attribution, ProbeEvidence
from plumbline.analysis.drift.comparison import Comparison, LastingChange, MetricComparison
from plumbline.analysis.drift.creep import Creep
from plumbline.analysis.drift.effect import Scale
from plumbline.analysis.drift.series_state import SeriesState
from plumbline.metrics.formatting import format_change, format_count, format_name, format_probe_name

_MOST_NAMED = 3


def format_effect(row: MetricComparison) -> str:
    """The effect of a row: `+91 %`, or `+2.0 points` / `+3 s` where ratios mean nothing."""
    return "no value" if row.effect is None else format_scaled_change(row.effect, row.scale, row.unit)


def format_interval(row: MetricComparison, confidence: float) -> str:
    """`95 %: +80 … +104`, or why there is none."""
    level = f"{100 * confidence:g} %"
    if row.ci_low is None or row.ci_high is None:
        return f"no {level} interval from {row.n_baseline} + {row.n_candidate} repeats"
    low, high = (format_scaled_change(end, row.scale, row.unit).removesuffix(" %") for end in (row.ci_low, row.ci_high))
    return f"{level}: {low} … {high}"


def format_metric_name(row: MetricComparison, lead_statistic: str) -> str:
    """The metric as a headline names it; the statistic and the phase only where they are not the usual ones."""
    statistic = "" if row.statistic == lead_statistic else f"{row.statistic} "
    return f"{statistic}{row.metric}" + ("" if row.phase == "steady" else f" in {row.phase}")


def parse_metric_name(text: str) -> tuple[str, str | None, str]:
    """Metric, statistic (None: the metric's usual one) and phase of what `name` made."""
    name, _, phase = text.partition(" in ")
    statistic, _, metric = name.rpartition(" ")
    return metric, statistic or None, phase or "steady"


def format_repeats_needed(row: MetricComparison) -> str:
    """The repeats that would settle a doubt, in words; empty without a doubt."""
    if row.verdict not in ("suspected", "insufficient_data"):
        return ""
    if row.repeats_needed is None:
        return "no affordable number of repeats settles it: the metric scatters too much for its threshold"
    plural = "s" if row.repeats_needed > 1 else ""
    if row.repeats_where == "both":
        return f"{row.repeats_needed} more repeat{plural} on each side would settle it"
    return f"{row.repeats_needed} more repeat{plural} would settle it"


def format_scaled_change(value: float, scale: Scale, unit: str) -> str:
    """A change on the scale of its row: `+91 %`, `+2.0 points`, `+3 s`."""
    if scale != "difference":
        return format_change(value)
    if unit == "ratio":
        return format_change(value).removesuffix(" %") + " points"
    return f"{'−' if value < 0 else '+'}{abs(value):.3g} {unit}"


def left_out_text(comparison: Comparison) -> str:
    """What the rows leave out; empty if nothing."""
    slow = comparison.slow_nodes
    return f"without trials on {', '.join(slow)}: slow in several acceptances" if slow else ""


def past_text(past: LastingChange | Creep | None) -> str | None:
    """What a long series shows of a metric; None of one whose past decided nothing."""
    if past is None:
        return None
    if isinstance(past, LastingChange):
        return f"the series shows a lasting {past.kind} since campaign {past.since}"
    return f"crept away from the oldest accepted baseline by {format_change(past.effect)}, {format_change(past.slope, 2)} a campaign"


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """The fields of a comparison for JSON, the past of its rows in words."""
    return {**vars(comparison), "rows": [{**vars(row), "past": past_text(row.past)} for row in comparison.rows]}


def state_change(state: SeriesState) -> str:
    """The change that decided the state, such as `time to first token +9.3 %`; empty if nothing was judged."""
    return "" if state.effect is None else f"{format_name(state.metric)} {_amount(state, state.effect)}"


def state_text(state: SeriesState) -> str:
    """The state with its change, what could be seen, or what would settle a doubt."""
    repeats = f" ({format_count(state.repeats, 'more repeat')})" if state.repeats else ""
    if state.state == "moved":
        limit = "its threshold" if state.threshold is None else f"your {_amount(state, state.threshold).removeprefix('+')}"
        return f"moved {_amount(state, state.effect or 0.0)}, under {limit} ({format_name(state.metric)})"
    if state.state == "steady":
        seen = "" if state.detectable is None else f" (±{_amount(state, state.detectable).removeprefix('+')})"
        return f"steady{seen}"
    if state.state == "cannot_tell":
        return f"cannot tell{repeats}" if repeats else "cannot tell: no baseline, or nothing comparable"
    change = state_change(state)
    return state.state + (f": {change}" if change else "") + (repeats if state.state == "suspected" else "")


def _amount(state: SeriesState, value: float) -> str:
    return format_scaled_change(value, state.scale, state.unit)


def attribution_text(found: Attribution) -> str:
    """What explains a movement and what the probes say, in one sentence."""
    measured, named = _probes_text(found.probes), found.explanations[:_MOST_NAMED]
    if named:
        rest = len(found.explanations) - len(named)
        causes = " and ".join(e.text for e in named) + (f" and {rest} more changes" if rest else "")
        return f"explained by: {causes}" + (f"; {measured}" if measured else "")
    if any(probe.says == "agrees" for probe in found.probes):
        return f"no recorded environment change explains it, but the machine itself moved: {measured}"
    return f"nothing recorded explains it: no relevant environment change; {measured or 'no hardware probe ran'}"


def _probes_text(probes: Sequence[ProbeEvidence]) -> str:
    """Such as `matmul −48 % agrees, disk unchanged`."""
    said = (f"{format_change(probe.effect)} {probe.says}" if probe.says != "unchanged" else "unchanged" for probe in probes)
    return ", ".join(f"{format_probe_name(probe.metric)} {words}" for probe, words in zip(probes, said, strict=True))
