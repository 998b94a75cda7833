import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "perf"))

from drift import Detector, missed, replayed
from drift_series import KINDS, LENGTHS, NOISES, STABLE, Labelled, labelled

_ANSWERS = "import json, sys\nfor line in sys.stdin: print(json.dumps({}))"


def detector(expression: str) -> Detector:
    return Detector("of a test", [sys.executable, "-c", _ANSWERS.format(expression)])


def series(kind: str, changes: tuple[int, ...]) -> Labelled:
    return Labelled([1.0] * 12, changes, kind, 2)


def test_series_are_the_same_for_a_seed_and_labelled() -> None:
    made = labelled(2, seed=1)

    assert made == labelled(2, seed=1) != labelled(2, seed=2)
    assert len(made) == len(LENGTHS) * len(NOISES) * (2 * 3 + 3 * 2)
    for one in made:
        assert len(one.changes) == {"none": 0, "spike": 0, "step": 1, "ramp": 1, "twostep": 2}[one.kind]
        assert all(0 < c < len(one.values) for c in one.changes)
    assert {one.kind for one in made} == set(KINDS)
    assert sum(one.kind in STABLE for one in made) * 2 == len(made)


def test_an_alarm_counts_once_and_only_near_a_change_that_it_has_seen() -> None:
    asked = [series("ramp", (6,)), series("none", ())]

    # From its ninth point on, every series is said to have changed at 5 and, wrongly, at 1.
    scores = replayed(detector('[1, 5] if len(json.loads(line)["values"]) >= 9 else []'), asked)

    assert (scores["precision"], scores["recall"], scores["ramps"], scores["stable"], scores["delay"]) == (0.25, 1.0, 1.0, 1.0, 3.0)


def test_a_detector_that_says_nothing_alarms_nowhere() -> None:
    scores = replayed(detector("[]"), [series("ramp", (6,)), series("none", ())])

    assert (scores["recall"], scores["F1"], scores["stable"]) == (0, 0, 0)


def test_a_detector_that_answers_too_little_is_named() -> None:
    silent = Detector("silent", [sys.executable, "-c", "import sys; sys.stdin.read()"])

    with pytest.raises(RuntimeError, match="silent"):
        silent.many([json.loads("[1, 2]")])


def test_an_aim_that_is_missed_or_has_no_figure_is_named() -> None:
    assert missed({"F1": (0.88, 0.88)}, {"stable": (0.04, 0.04)}) == []
    for one, other in ((0.87, 0.05), (math.nan, math.nan)):
        for line, named in zip(
            missed({"F1": (one, 0.88)}, {"stable": (other, 0.04)}), (("F1", one, 0.88), ("stable", other, 0.04)), strict=True
        ):
            assert all(str(value) in line for value in named)
