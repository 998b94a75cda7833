"""What came to nothing is paid by what finished."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Provider

ON = date(2026, 11, 1)
PLACE = Provider.model_validate_json(
    json.dumps(
        {
            "name": "p", "cloud": "c", "region": "r", "instance_type": "i", "accelerator": {"kind": "cpu", "count": 1},
            "launcher": {"kind": "local", "cpus": [0]},
            "prices": [{"purchase": "on_demand", "price": "3.60 USD/h", "since": "2026-01-01", "source": "an example"}],
        }
    )
)  # fmt: skip


def trial(n: int, status: str, held_s: float | None, **changed: Any) -> TrialSample:
    given: dict[str, Any] = {
        "trial_id": f"t{n}", "provider": "p", "kind": "training", "workload": "w", "version": 1, "status": status, "slot": "02:00",
        "repeat": n, "started": ON, "held_s": held_s,
    }  # fmt: skip
    return TrialSample(**given | changed)


def per_finished_run(*trials: TrialSample) -> list[float | None]:
    found = with_costs(trials, {"p": PLACE}, ON)
    return [t.value("cost_per_finished_run", "value", "steady") for t in found if t.usable]


def test_the_time_of_failed_attempts_is_shared() -> None:
    # 100 s of a failed attempt and 40 s of an invalid one over two finished runs of 200 s: 270 s each, at 0.001 USD/s.
    lost = trial(3, "failed", 100.0), trial(4, "invalid", 40.0)
    assert per_finished_run(trial(1, "valid", 200.0), trial(2, "degraded", 200.0), *lost) == pytest.approx([0.27, 0.27])
    assert per_finished_run(trial(1, "valid", 200.0)) == pytest.approx([0.2])


def test_other_workloads_and_what_never_ran_are_not_in_it() -> None:
    others = trial(2, "failed", 100.0, workload="other"), trial(3, "missing", None), trial(4, "failed", 0.0)
    assert per_finished_run(trial(1, "valid", 200.0), *others) == pytest.approx([0.2])


def test_a_failed_attempt_of_unknown_length_makes_it_unknown() -> None:
    assert per_finished_run(trial(1, "valid", 200.0), trial(2, "failed", None), trial(3, "failed", 10.0)) == [None]
