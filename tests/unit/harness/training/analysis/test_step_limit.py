"""What a step of training waits for, in one word."""

from __future__ import annotations

import pytest

from plumbline.harness.training.analysis.step_limit import StepEvidence, judge_step, step_evidence
from plumbline.results import Stage, Telemetry, metric_row


@pytest.mark.parametrize(
    ("evidence", "limit", "shown"),
    [
        (StepEvidence(False, 0.01, None, 0.97, 0.5), "cores", True),
        (StepEvidence(True, 0.01, 0.02, 0.99, 0.45, 0.8), "accelerator", True),
        (StepEvidence(True, None, None, 0.99, None, 0.8), "accelerator", True),
        (StepEvidence(True, 0.35, 0.05, 0.4, 0.02), "data", False),
        (StepEvidence(True, 0.05, 0.35, 0.9, 0.2, 0.5), "communication", False),
        (StepEvidence(True, 0.01, 0.02, 0.4, 0.02, 0.2), "host", False),
        (StepEvidence(True, 0.01, 0.02, 0.95, 0.02, 0.2), "host", False),
        (StepEvidence(True, None, None, 0.4), "not_shown", False),
        (StepEvidence(True, 0.01, 0.0, None), "not_shown", False),
        (StepEvidence(False), "not_shown", False),
    ],
)
def test_what_it_waits_for(evidence: StepEvidence, limit: str, shown: bool) -> None:
    judged = judge_step(evidence)
    assert (judged.phase, judged.limit, judged.judgement.verdict == "met") == ("steady", limit, shown), judged.seen


def signal(name: str, mean: float, phase: str = "steady") -> Telemetry:
    return Telemetry(phase=phase, signal=name, unit="ratio", n=3, mean=mean, min=mean, max=mean)  # type: ignore[arg-type]


def test_the_evidence_comes_from_the_trials_rows() -> None:
    stages = [Stage(phase="steady", stage=name, total_s=s, n=5) for name, s in (("data_wait", 1.0), ("forward", 3.0), ("checkpoint", 50.0))]
    telemetry = [
        signal("gpu0_utilization", 0.9),
        signal("gpu1_utilization", 0.7),
        signal("gpu0_power", 300.0),
        signal("gpu1_power", 500.0),
        signal("own_cpu", 0.2),
        signal("gpu0_utilization", 0.1, "warmup"),
    ]
    rows = [metric_row("model_flops_utilization", 0.4, 5)]
    found = step_evidence(accelerated=True, metrics=rows, stages=stages, telemetry=telemetry, probed_power=800.0)
    assert found == StepEvidence(True, 0.25, None, pytest.approx(0.8), 0.4, 0.5)
    alone = step_evidence(accelerated=False, metrics=[], stages=stages[:1], telemetry=telemetry, probed_power=None)
    assert alone == StepEvidence(False, None, None, 0.2, None, None), "waiting alone has no whole to take the share of"
