"""Trials with given numbers, preferences with given weights, and strategies that draw both: what tests of decisions are made of."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from tests.data.plain_rows import plain_row

from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Preference
from plumbline.metrics import METRICS
from plumbline.metrics.rows import MetricRow

METRIC_NAMES = ("time_to_first_token", "output_token_throughput", "error_rate", "cost_per_1k_requests")


def number(metric: str, value: float) -> MetricRow:
    known = METRICS[metric]
    return plain_row(phase_of(metric), metric, known.statistic, value, known.unit, known.direction, 90)


def repeats(provider: str, *numbers: dict[str, float], workload: str = "chat", slots: tuple[str, ...] = ("02:00",)) -> list[TrialSample]:
    """One valid trial per mapping of numbers, dealt to the slots in turn."""
    return [
        TrialSample(
            f"{provider}.{workload}.r{i}",
            provider,
            "inference",
            workload,
            1,
            "valid",
            slots[(i - 1) % len(slots)],
            i,
            None,
            tuple(number(m, v) for m, v in found.items()),
        )
        for i, found in enumerate(numbers, start=1)
    ]


def with_sweep(trial: TrialSample, highest: float | None, *, tokens: float = 100.0) -> TrialSample:
    """The trial with a sweep that found this highest rate, all requests good; None: it found none."""
    at = highest or 1.0
    found = {
        "request_throughput": at,
        "goodput": at,
        "output_token_throughput": at * tokens,
        "input_token_throughput": at,
        "error_rate": 0.0,
    }
    rows = [number(m, v).model_copy(update={"phase": "sweep"}) for m, v in found.items()]
    rate = number("highest_sustained_rate", at).model_copy(update={"phase": "sweep", "value": highest})
    return replace(trial, metrics=(*trial.metrics, *rows, rate))


def preference(weights: dict[str, float], *gates: str, workloads: tuple[str, ...] = ("chat",), **more: object) -> Preference:
    return Preference.model_validate({"workloads": workloads, "weights": weights, "gates": gates, **more})


positive = st.floats(min_value=1e-3, max_value=1e3)
share = st.floats(min_value=0.0, max_value=0.5)
numbers = st.fixed_dictionaries(
    {"time_to_first_token": positive, "output_token_throughput": positive, "error_rate": share, "cost_per_1k_requests": positive}
)
field = st.lists(st.lists(numbers, min_size=2, max_size=3), min_size=2, max_size=4)
raw_weights = st.lists(st.floats(min_value=0.01, max_value=1.0), min_size=4, max_size=4)
value_functions = st.fixed_dictionaries(
    {},
    optional={
        "time_to_first_token": st.sampled_from([{"worst": "100s", "best": "10ms"}, {"worst": "20x best"}]),
        "output_token_throughput": st.sampled_from([{"worst": "1tokens/s", "best": "500tokens/s"}, {"worst": "0.05x best"}]),
        "error_rate": st.just({"worst": "60%", "best": "0%"}),
        "cost_per_1k_requests": st.sampled_from([{"worst": "30x best"}, {"worst": "9x best", "best": "1.5x best"}, "ratio"]),
    },
)


def weighted(raw: list[float]) -> dict[str, float]:
    return {name: w / sum(raw) for name, w in zip(METRIC_NAMES, raw, strict=True)}


def trials_of(measured: list[list[dict[str, float]]]) -> list[TrialSample]:
    return [t for i, found in enumerate(measured) for t in repeats(f"p{i}", *found)]
