"""Which number is asked first."""

from __future__ import annotations

import pytest
from tests.unit.scorecards.made import launched, number

from plumbline.analysis.scorecards.scorecard import primary_of, scorecard
from plumbline.declarations import load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.trials import spec_hash
from plumbline.declarations.workloads.workload import Primary

WORKLOADS = load(REPOSITORY / "include" / "config").workloads


@pytest.mark.parametrize(
    ("workload", "asked"),
    [
        ("pretrain-cpu", "tokens_per_second_per_device"),
        ("lora-cpu", "tokens_per_second_per_device"),
        ("vision-retrain-cpu", "samples_per_second_per_device"),
        ("embedding-refresh-cpu", "samples_per_second"),
        ("reinforcement-cpu", "samples_per_second"),
        ("chat-8b", "highest_sustained_rate"),
        ("chat-cpu", "p95 time_to_first_token in steady"),
        ("embedding-cpu", "p95 request_scheduled_latency in steady"),
    ],
)
def test_what_fits_the_task(workload: str, asked: str) -> None:
    assert primary_of(WORKLOADS[workload]).text == asked


def test_what_is_declared_comes_first_and_changes_nothing_that_is_measured() -> None:
    plain = WORKLOADS["chat-8b"]
    told = plain.model_copy(update={"primary": Primary.model_validate("p99 time_to_first_token in steady")})
    assert primary_of(told) is told.primary
    assert spec_hash(told) == spec_hash(plain)
    assert told.of_trial() == plain


def test_the_card_shows_the_row_that_was_asked() -> None:
    trials = [
        launched(
            i,
            metrics=(
                number("time_to_first_token", 0.1 * i),
                number("time_to_first_token", 0.2 * i, statistic="p95"),
                number("time_to_first_token", 0.9 * i, "stress", "p95"),
            ),
        )
        for i in (1, 2, 3)
    ]

    def first(line: str) -> tuple[str, str, float | None, int] | None:
        row = scorecard(trials, primary=Primary.model_validate(line)).primary
        return None if row is None else (row.statistic, row.phase, row.value, row.n)

    named = "p95 time_to_first_token"
    assert first(f"{named} in stress") == ("p95", "stress", pytest.approx(1.8), 3)
    assert first(named) == ("p95", "steady", pytest.approx(0.4), 3)
    assert first("goodput") is None, "asked, and measured by nobody"
    assert scorecard(trials).primary is None
