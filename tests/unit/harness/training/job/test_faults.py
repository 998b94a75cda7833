"""When a job counts as hung."""

from __future__ import annotations

import pytest

from plumbline.declarations.workloads.training import RankHang
from plumbline.harness.training.job.fault_injection import hang_notice_s


@pytest.mark.parametrize(("step_time_s", "expected"), [(0.01, 1.0), (0.05, 1.0), (0.5, 10.0), (30.0, 600.0)])
def test_silence_is_measured_in_steps_and_lasts_a_second_at_least(step_time_s: float, expected: float) -> None:
    assert hang_notice_s(RankHang(inject="rank_hang", at_step=5, notice=20), step_time_s) == expected
