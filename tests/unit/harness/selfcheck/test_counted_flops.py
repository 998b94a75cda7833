from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.harness.selfcheck import ARCHITECTURES
from plumbline.harness.selfcheck.torch_checks import flop_lines
from plumbline.kinds.arithmetic.flops import flops_per_step


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_harness_counts_as_torch_does(tmp_path: Path, architecture: str) -> None:
    (line,) = flop_lines(tmp_path, {architecture})
    assert (line.status, line.of, line.unit) == ("pass", architecture, "FLOP")
    assert line.measured == line.expected


def test_a_counter_that_forgets_a_percent_fails(tmp_path: Path) -> None:
    (line,) = flop_lines(tmp_path, {"gpt"}, lambda workload: 0.99 * (flops_per_step(workload) or 0))
    assert line.status == "fail"


def test_what_is_not_counted_is_not_applicable(tmp_path: Path) -> None:
    (line,) = flop_lines(tmp_path, {"gpt"}, lambda _: None)
    assert (line.status, line.measured) == ("not_applicable", None)
