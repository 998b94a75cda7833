from __future__ import annotations

from typing import Any

import pytest

from plumbline.analysis.drift.compare import SeriesPair, compare, compare_series
from plumbline.declarations import load
from plumbline.declarations.workloads.workload import DriftLimits

FIVE = [1.000, 1.004, 0.997, 1.002, 0.999]


def times(factor: float, values: list[float] = FIVE) -> list[float]:
    return [factor * v for v in values]


def row_of(comparison: Any, metric: str, statistic: str | None = None) -> Any:
    return next(r for r in comparison.rows if r.metric == metric and statistic in (None, r.statistic))


def test_a_clear_move_is_regressed_or_improved_by_the_direction(sample: Any, rules: Any, limits: Any) -> None:
    baseline = sample("b", {"step_time": FIVE, "tokens_per_second": times(100)})
    slower = sample("c", {"step_time": times(1.5), "tokens_per_second": times(150)})
    found = compare([baseline], slower, rules=rules, limits=limits)
    step, tokens = row_of(found, "step_time"), row_of(found, "tokens_per_second")
    assert (step.verdict, tokens.verdict) == ("regressed", "improved")
    assert step.effect == pytest.approx(0.5, abs=0.01) and step.ci_low > 0.45 and step.past_threshold == 5
    assert found.verdict == "regressed"


def test_the_same_numbers_are_unchanged(sample: Any, rules: Any, limits: Any) -> None:
    found = compare([sample("b", {"step_time": FIVE})], sample("c", {"step_time": FIVE[::-1]}), rules=rules, limits=limits)
    step = row_of(found, "step_time")
    assert step.verdict == "unchanged" and step.mde is not None and step.mde < 1.2 * step.warn
    assert found.verdict == "unchanged" and not found.drifted


def test_two_against_two_can_suspect_but_never_accuse(sample: Any, rules: Any, limits: Any) -> None:
    found = compare([sample("b", {"step_time": [1.0, 1.01]})], sample("c", {"step_time": [3.0, 3.01]}), rules=rules, limits=limits)
    step = row_of(found, "step_time")
    assert step.verdict == "suspected" and step.repeats_needed == 6 and step.repeats_where == "candidate"
    assert step.mde is None and step.ci_low is None


def test_too_noisy_to_say_is_insufficient_data_with_the_way_out(sample: Any, rules: Any, limits: Any) -> None:
    noisy = [1.0, 1.2, 0.85, 1.1, 0.95]
    found = compare(
        [sample("b", {"step_time": noisy})], sample("c", {"step_time": [1.01, 1.21, 0.86, 1.09, 0.94]}), rules=rules, limits=limits
    )
    step = row_of(found, "step_time")
    assert step.verdict == "insufficient_data" and (step.repeats_needed is None or step.repeats_needed > 5)


def test_lead_time_is_watched_once_a_threshold_is_declared(sample: Any, rules: Any, limits: Any) -> None:
    """As `metrics: {provisioning_lead_time: …}` of thresholds.yaml; the catalogue has none, as a start on a busy machine varies by half."""
    lead = ("provisioning_lead_time", "value", "cold_start")
    before, after = sample("b", {lead: times(90)}), sample("c", {lead: times(270)})
    drift = rules.model_copy(update={"metrics": {lead[0]: DriftLimits.model_validate({"warn": "50%", "page": "100%"})}})
    declared = load().thresholds.model_copy(update={"drift": drift})
    watched = compare([before], after, rules=drift, limits=lambda metric: declared.drift_limits(None, metric))
    assert (watched.verdict, row_of(watched, lead[0]).verdict, row_of(watched, lead[0]).page) == ("regressed", "regressed", 1.0)
    assert row_of(compare([before], after, rules=rules, limits=limits), lead[0]).verdict is None


def test_a_significant_but_tiny_move_is_unchanged(sample: Any, rules: Any, limits: Any) -> None:
    quiet = [1.0000, 1.0004, 0.9997, 1.0002, 0.9999]
    found = compare([sample("b", {"step_time": quiet})], sample("c", {"step_time": times(1.01, quiet)}), rules=rules, limits=limits)
    step = row_of(found, "step_time")
    assert step.p is not None and step.effect == pytest.approx(0.01, abs=1e-4)
    assert step.verdict == "unchanged"


def test_metrics_without_thresholds_and_phases_beside_the_steady_one_are_informative(sample: Any, rules: Any, limits: Any) -> None:
    metrics = {"step_time": FIVE, ("step_time", "median", "warmup"): FIVE, ("step_time", "mean", "steady"): FIVE, "data_wait_time": FIVE}
    moved = {name: times(2) for name in metrics}
    found = compare([sample("b", metrics)], sample("c", moved), rules=rules, limits=limits)
    verdicts = {(r.metric, r.statistic, r.phase): r.verdict for r in found.rows}
    assert verdicts[("step_time", "median", "steady")] == "regressed"
    assert verdicts[("step_time", "median", "warmup")] is None
    assert verdicts[("step_time", "mean", "steady")] is None
    assert verdicts[("data_wait_time", "mean", "steady")] is None
    assert row_of(found, "data_wait_time").effect == pytest.approx(1.0, abs=0.02)


def test_judged_rows_are_the_same_without_the_informative_ones(sample: Any, rules: Any, limits: Any) -> None:
    metrics = {"step_time": FIVE, ("step_time", "mean", "steady"): FIVE, "checkpoint_size": FIVE}
    pair = SeriesPair([sample("b", metrics)], sample("c", {name: times(1.3) for name in metrics}), limits)
    (whole,), (judged,) = (compare_series([pair], rules=rules, judged_only=only) for only in (False, True))
    assert judged.rows == tuple(row for row in whole.rows if row.family != "informative")
    assert 0 < len(judged.rows) < len(whole.rows)


def test_tails_are_a_family_of_their_own(sample: Any, rules: Any, limits: Any) -> None:
    base = {"time_to_first_token": FIVE, ("time_to_first_token", "p99", "steady"): FIVE}
    tail_moved = {"time_to_first_token": FIVE, ("time_to_first_token", "p99", "steady"): times(2)}
    found = compare([sample("b", base)], sample("c", tail_moved), rules=rules, limits=limits)
    assert row_of(found, "time_to_first_token", "p50").verdict == "unchanged"
    tail = row_of(found, "time_to_first_token", "p99")
    assert tail.family == "tail" and tail.verdict == "regressed" and tail.q < tail.p


def test_a_lone_move_among_many_metrics_needs_more_than_its_own_p(sample: Any, rules: Any, limits: Any) -> None:
    names = [
        "step_time",
        "tokens_per_second",
        "samples_per_second",
        "goodput",
        "inter_token_latency",
        "request_latency",
        "request_throughput",
    ]
    base = sample("b", dict.fromkeys(names, FIVE))
    alone = sample("c", {**dict.fromkeys(names, FIVE), "step_time": times(1.0205)})
    found = row_of(compare([base], alone, rules=rules, limits=limits), "step_time")
    assert found.p < 0.05 < found.q and found.verdict == "suspected" and found.repeats_needed
    assert (
        row_of(compare([base], sample("c", {"step_time": times(1.0205)}), rules=rules, limits=limits), "step_time").verdict == "regressed"
    )


def test_a_clear_move_of_one_metric_is_found_though_no_exact_p_of_five_repeats_survives_the_correction(
    sample: Any, rules: Any, limits: Any
) -> None:
    quiet = [f"training/w{i}@1/h1/torch/local-2core/here/host-2core" for i in range(30)]
    pairs = [SeriesPair([sample("b", {"step_time": FIVE}, key=k)], sample("c", {"step_time": FIVE}, key=k), limits) for k in quiet]
    moved = SeriesPair([sample("b", {"step_time": FIVE})], sample("c", {"step_time": times(1.1)}), limits)
    *others, found = compare_series([*pairs, moved], rules=rules)
    assert [c.verdict for c in others] == ["unchanged"] * 30 and found.verdict == "regressed"


def test_quiet_campaigns_since_the_baseline_sharpen_and_restless_ones_hold_back(sample: Any, rules: Any, limits: Any) -> None:
    def verdict(levels: list[float]) -> Any:
        history = [sample(f"h{i}", {"step_time": times(level)}) for i, level in enumerate(levels)]
        pair = SeriesPair([sample("b", {"step_time": FIVE})], sample("c", {"step_time": times(1.06)}), limits, history)
        return row_of(compare_series([pair], rules=rules)[0], "step_time").verdict

    assert verdict([1.0, 1.001, 0.999, 1.0]) == "regressed"
    assert verdict([1.05, 0.96, 1.04, 0.95]) == "suspected"


def test_all_accepted_campaigns_count(sample: Any, rules: Any, limits: Any) -> None:
    baseline = [sample(f"b{i}", {"step_time": [1.0 + 0.001 * i, 1.004 - 0.001 * i]}) for i in range(4)]
    found = compare(baseline, sample("c", {"step_time": [1.5, 1.51]}), rules=rules, limits=limits)
    step = row_of(found, "step_time")
    assert step.n_baseline == 8 and step.verdict == "regressed"
    assert found.baseline_campaigns == ("b0", "b1", "b2", "b3")


def test_a_relative_threshold_says_nothing_against_zero(sample: Any, rules: Any) -> None:
    from plumbline.declarations.workloads.workload import DriftLimits

    found = compare(
        [sample("b", {"queue_time": [0.0] * 5})],
        sample("c", {"queue_time": [0.1] * 5}),
        rules=rules,
        limits=lambda _: DriftLimits.model_construct(warn=0.1, page=0.2),
    )
    queue = row_of(found, "queue_time")
    assert queue.verdict is None and "no relative threshold" in queue.notes[-1]


def test_a_metric_that_vanished_is_said(sample: Any, rules: Any, limits: Any) -> None:
    found = compare([sample("b", {"step_time": FIVE, "goodput": FIVE})], sample("c", {"step_time": FIVE}), rules=rules, limits=limits)
    goodput = row_of(found, "goodput")
    assert (goodput.verdict, goodput.n_candidate) == ("insufficient_data", 0) and len(goodput.notes) == 1


def test_what_is_refused_has_no_rows(sample: Any, rules: Any, limits: Any) -> None:
    found = compare([], sample("c", {"step_time": FIVE}), rules=rules, limits=limits)
    assert found.rows == () and found.verdict is None and "no accepted baseline" in found.problems[0]
