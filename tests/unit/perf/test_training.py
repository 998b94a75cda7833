"""The benchmark of training loops: its order, its ratios, its verdicts, what its peers can do, and that all three loops train."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

PERF = Path(__file__).resolve().parents[3] / "perf"
sys.path.insert(0, str(PERF))

from training import BARE, HUGGING_FACE, OURS, Loop, checked, orders, quads, ratio  # noqa: E402
from training_report import Figures, Ratio, markdown, written  # noqa: E402

from plumbline.declarations import load  # noqa: E402
from plumbline.declarations.workloads.training import TrainingWorkload  # noqa: E402

LATER = math.inf
"""When no measuring here is to end by the clock."""


def test_blocks_come_in_the_order_a_b_b_a() -> None:
    said: list[str] = []

    def block(name: str) -> Callable[[], float]:
        return lambda: said.append(name) or float(len(said))  # type: ignore[func-returns-value]

    bare, trainer = quads(block("a"), [block("b"), block("c")], 2, LATER)
    assert "".join(said) == "abccba" * 2
    assert bare == [(1.0, 2.0), (6.0, 5.0), (7.0, 8.0), (12.0, 11.0)] and len(trainer) == 4


def test_time_that_is_up_leaves_what_was_measured() -> None:
    (pairs,) = quads(lambda: 1.0, [lambda: 2.0], 100, time.monotonic() - 1)
    assert len(pairs) == 2


def test_a_machine_that_slows_down_evenly_changes_no_ratio() -> None:
    speed = iter(1.0 + 0.1 * i for i in range(1000))
    (pairs,) = quads(lambda: 1.02 * next(speed), [lambda: next(speed)], 20, LATER)
    found = ratio("ours", 1.01, pairs)
    assert found.value == pytest.approx(1.02, rel=2e-3) and found.interval is not None
    assert found.verdict == "missed"


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.99, 1.005), "held"), ((1.0, 1.01), "held"), ((1.0, 1.02), "undecided"), ((1.011, 1.02), "missed"), (None, "undecided")],
)
def test_a_bound_is_judged_by_the_whole_interval(interval: tuple[float, float] | None, verdict: str) -> None:
    assert Ratio("ours", 1.01, 1.0, interval, 10, 1.0, 1.0).verdict == verdict


def test_the_figures_as_page_and_data(tmp_path: Path) -> None:
    figures = Figures("python perf/training.py", "cpu", "gpt-tiny-cpu")
    figures.ratios = [Ratio("our step over a bare one", 1.01, 1.002, (0.99, 1.02), 20, 0.06, 0.061)]
    figures.aa = {
        "said": "10 trials",
        "alarms": [],
        "verdicts": {"unchanged": 45},
        "scatter": [{"metric": "step_time", "statistic": "median", "median": 0.06, "cv": 0.02, "unit": "s"}],
    }
    figures.trials = [
        {"workload": "w", "precision": "bf16", "status": "valid.", "metrics": [{"metric": "step_time", "phase": "steady", "value": 0.3}]}
    ]
    page = markdown(figures)
    cells = {cell.strip() for line in page.splitlines() if line.startswith("|") for cell in line.split("|")}
    assert {"1.002 (0.990 … 1.020)", f"≤ {figures.ratios[0].bound}", "undecided", "step_time", "60.0 ms", "2.0%", "300 ms"} <= cells
    assert figures.missed == []
    figures.aa["alarms"] = [{"metric": "step_time"}]
    figures.trials[0]["status"] = "failed. no GPU"
    assert figures.missed[0] == "w, bf16" and len(figures.missed) == 2
    figures.aa |= {"alarms": [], "verdicts": {"not comparable": 45}}
    assert "not at rest" in figures.missed[-1]
    page = markdown(figures)
    written(figures, tmp_path / "figures" / "training.json")
    data = json.loads((tmp_path / "figures" / "training.json").read_text())
    assert data["ratios"][0]["verdict"] == "undecided" and data["environment"]["torch"]
    assert (tmp_path / "figures" / "training.md").read_text() == page


@pytest.mark.parametrize("name", ["gpt-tiny-cpu-2proc", "lora-cpu", "chat-tiny-cpu"])
def test_what_the_peers_cannot_train_is_refused(name: str) -> None:
    with pytest.raises(SystemExit, match=name):
        checked(load(), name)


@pytest.mark.full
@pytest.mark.integration
def test_all_three_loops_do_their_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    workload = load().workloads["gpt-tiny-cpu"]
    assert isinstance(workload, TrainingWorkload)
    small = {"layers": 1, "width": 16, "heads": 2, "vocabulary": 64, "context": 16}
    told = workload.model_dump(mode="json", exclude_unset=True)
    told |= {
        "model": {**told["model"], **small},
        "batch": {"micro": 2, "accumulation": 2, "sequence": 16},
        "data": {"source": "synthetic", "tokens": 4096},
        "optimizer": {"name": "adamw", "learning_rate": 1e-3, "clip": 1.0},
    }
    spec = orders(TrainingWorkload.model_validate_json(json.dumps(told)), tmp_path, "cpu")
    for name in (OURS, BARE, HUGGING_FACE):
        with Loop(name, replace(spec, threads=1), tmp_path) as loop:
            assert loop.block(3) > 0
            assert loop.block(5) > 0


def test_a_loop_that_breaks_off_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    spec = orders(checked(load(), "gpt-tiny-cpu"), tmp_path, "cpu")
    broken = replace(spec, data=replace(spec.data, path=str(tmp_path / "missing")))
    with Loop(BARE, broken, tmp_path) as loop, pytest.raises(RuntimeError, match=BARE):
        loop.block(2)
