"""Cards, their counts and who leads."""

from __future__ import annotations

from datetime import date

import pytest
from tests.data.plain_rows import plain_row
from tests.unit.scorecards.places import place

from plumbline.analysis.scorecards.scorecard import last_attempts, leaders, scorecard, scorecards
from plumbline.analysis.trial_sample import TrialSample
from plumbline.metrics import METRICS
from plumbline.metrics.rows import MetricRow


def number(metric: str, value: float | None, phase: str = "steady", statistic: str | None = None, n: int = 120) -> MetricRow:
    known = METRICS[metric]
    return plain_row(phase, metric, statistic or known.statistic, value, known.unit, known.direction, n)


def trial(
    repeat: int,
    *numbers: MetricRow,
    provider: str = "a",
    status: str = "valid",
    kind: str = "training",
    attempt: int = 1,
    failure: str | None = None,
) -> TrialSample:
    return TrialSample(
        trial_id=f"2026-11.{provider}.{kind}.w.0200.r{repeat}",
        provider=provider,
        kind=kind,  # type: ignore[arg-type]
        workload="w",
        version=1,
        status=status,
        slot="02:00",
        repeat=repeat,
        started=date(2026, 11, 20),
        metrics=numbers,
        attempt=attempt,
        failure_class=failure,
    )


def test_a_row_is_the_median_of_usable_repeats_with_the_trials_behind_it() -> None:
    card = scorecard(
        [
            trial(1, number("step_time", 0.10)),
            trial(2, number("step_time", 0.14), status="degraded"),
            trial(3, number("step_time", 9.0), status="invalid"),
            trial(4, status="failed", failure="out_of_memory"),
            trial(5, status="missing"),
        ]
    )
    row = card.row("step_time")
    assert row is not None
    assert row.value == pytest.approx(0.12)
    assert (row.low, row.high, row.coverage, row.n, row.observations) == (0.10, 0.14, 0.5, 2, 240)
    assert row.trials == ("2026-11.a.training.w.0200.r1", "2026-11.a.training.w.0200.r2")
    assert card.counts == {"valid": 1, "degraded": 1, "invalid": 1, "failed": 1, "missing": 1}
    assert (card.planned, card.usable) == (5, 2)


def test_missing_is_never_zero() -> None:
    card = scorecard([trial(1, number("step_time", None)), trial(2, number("step_time", None))])
    row = card.row("step_time")
    assert row is not None
    assert row.value is None
    assert row.n == 0
    assert scorecard([trial(1, status="missing")]).rows == ()


def test_the_leading_row_is_the_catalogues_statistic_in_the_metrics_own_phase() -> None:
    card = scorecard(
        [
            trial(
                1,
                number("time_to_first_token", 0.5, phase="stress"),
                number("time_to_first_token", 0.1),
                number("time_to_first_token", 0.3, statistic="p95"),
                number("time_to_ready", 2.5, phase="cold_start"),
                kind="inference",
            )
        ]
    )
    leading = card.row("time_to_first_token")
    assert leading is not None
    assert (leading.phase, leading.statistic, leading.value) == ("steady", "p50", 0.1)
    ready = card.row("time_to_ready")
    assert ready is not None
    assert ready.phase == "cold_start"


def test_training_and_inference_are_never_one_card() -> None:
    both = [trial(1, number("step_time", 0.1)), trial(1, number("goodput", 4.0), kind="inference")]
    with pytest.raises(ValueError, match="expected exactly one"):
        scorecard(both)
    assert [(c.kind, c.planned) for c in scorecards(both)] == [("inference", 1), ("training", 1)]


def test_a_failed_retry_never_hides_a_good_measurement() -> None:
    good = trial(1, number("step_time", 0.1))
    bad = trial(1, status="failed", attempt=2, failure="interrupted")
    assert last_attempts([good, bad]) == (good,)
    assert last_attempts([trial(1, status="failed", failure="interrupted"), trial(1, number("step_time", 0.2), attempt=2)])[0].attempt == 2


def test_launch_success_counts_attempts_and_what_the_promise_needs() -> None:
    started = [trial(i, number("step_time", 0.1)) for i in range(1, 10)]
    refused = trial(10, status="failed", failure="insufficient_capacity")
    ours = trial(11, status="failed", failure="bad_declaration")
    crashed = trial(12, status="failed", failure="server_error")
    launch = scorecard([*started, refused, ours, crashed, trial(13, status="missing")], place=place(sla={"launch_success": "99%"})).launch
    assert (launch.share.successes, launch.share.n) == (10, 11)
    assert (launch.verdict, launch.needed) == ("not_shown", 563)
    for failure, n, verdict, unproven in (
        ("insufficient_capacity", 11, "broken", 0),
        ("wrong_hardware", 11, "broken", 0),
        ("launch_timeout", 10, "not_shown", 1),
        ("unreachable", 10, "not_shown", 1),
    ):
        another = scorecard([*started, refused, trial(11, status="failed", failure=failure)], place=place(sla={"launch_success": "99%"}))
        found = another.launch
        assert (found.share.successes, found.share.n, found.verdict, found.unproven) == (9, n, verdict, unproven), (
            "what may be our network or registry is counted apart"
        )
        assert another.capacity.refused.n == n
    broke = scorecard([*started, trial(11, status="failed", failure="provider_fault")])
    assert (broke.launch.share.successes, broke.launch.share.n) == (10, 10), "a GPU that fails later was launched"
    many = [trial(i, status="failed", failure="insufficient_capacity") for i in range(20)]
    assert scorecard(many, place=place(sla={"launch_success": "95%"})).launch.verdict == "broken"
    for failure in ("quota_exceeded", "image_error", "bad_declaration"):
        wrong = [trial(i, status="failed", failure=failure) for i in range(20)]
        assert scorecard(wrong, place=place(sla={"launch_success": "95%"})).launch.share.n == 0, (
            "what we asked wrongly is not held against a contract"
        )
    assert scorecard([trial(i) for i in range(400)], place=place(sla={"launch_success": "99%"})).launch.verdict == "kept"
    assert scorecard([trial(1)]).launch.verdict == "not_promised"


def test_who_leads() -> None:
    def rows(**values: tuple[float, ...]) -> dict[str, object]:
        return {
            p: scorecard([trial(i, number("step_time", v)) for i, v in enumerate(found)]).row("step_time") for p, found in values.items()
        }

    assert leaders(rows(a=(0.10, 0.11), b=(0.20, 0.21))) == ("a",)  # type: ignore[arg-type]
    assert leaders(rows(a=(0.10, 0.21), b=(0.20, 0.22))) == ("a", "b")  # type: ignore[arg-type]
    assert leaders(rows(a=(0.10, 0.11))) == ()  # type: ignore[arg-type]
    assert leaders(rows(a=(0.10,), b=(0.20, 0.21))) == ("a", "b")  # type: ignore[arg-type]
    assert leaders({**rows(a=(0.1, 0.1)), "b": None}) == ()  # type: ignore[arg-type]
