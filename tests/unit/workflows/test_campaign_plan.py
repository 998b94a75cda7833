"""What a campaign will run, told before anything starts. Running one: tests/integration/test_airflow_smoke.py."""

from __future__ import annotations

import pytest
from tests.fakes.trials import declared

from plumbline.launch.plan import PlanError, RunRequest, planned_trials


def test_every_enabled_provider_takes_part() -> None:
    found = planned_trials(declared(), RunRequest("c", "why"))
    assert {name: len(trials) for name, trials in found.items()} == {"local-1core": 4, "local-2core": 4}
    assert [t.workload.kind for t in found["local-1core"]] == ["training", "training", "inference", "inference"]


def test_only_what_was_asked_for() -> None:
    found = planned_trials(declared(), RunRequest("c", "why", workloads=("gpt-tiny-cpu",), repeats=1), ["local-2core"])
    assert [t.trial_id for t in found["local-2core"]] == ["c.local-2core.training.gpt-tiny-cpu.0200.r1"]
    assert list(found) == ["local-2core"]


@pytest.mark.parametrize(
    ("asked", "providers", "message"),
    [
        (RunRequest("c", "why"), ["nowhere"], 'no enabled provider is called "nowhere"; expected one of local-1core, local-2core'),
        (RunRequest("c", "why"), ["example-eks-p5"], 'provider "example-eks-p5" is disabled'),
        (RunRequest("c", "why", workloads=("huge",)), None, 'no workload is called "huge"; expected one of chat-tiny-cpu, gpt-tiny-cpu'),
        (RunRequest("c", "why", workloads=("gpt-tiny-cpu",), kinds=("inference",)), None, "nothing to run"),
        (RunRequest("Not An Id", "why"), None, "Not An Id"),
        (RunRequest("c", "why", placement="fresh_node"), None, "fresh_node.*local-1core, local-2core"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_starts(asked: RunRequest, providers: list[str] | None, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        planned_trials(declared(), asked, providers)
