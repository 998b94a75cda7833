"""A simulated training script: a whole document that the quality checks accept, with what its declaration reports and nothing else."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import provider, trial
from tests.unit.launch.simulated.test_documents import place

from plumbline.analysis.cost.interruptions import measured_run
from plumbline.analysis.cost.precision import precision_levers
from plumbline.analysis.document_sample import sample_of
from plumbline.analysis.scorecards.scorecard import primary_of
from plumbline.declarations import ScriptWorkload
from plumbline.declarations.compatibility import scratch_needed
from plumbline.launch.monthly_estimate import estimate_trial_s, estimate_workload, limit_s
from plumbline.launch.simulated.launcher import simulate
from plumbline.quality import check
from plumbline.quality.attempt_rows import required_metrics
from plumbline.results import ResultDocument

DECLARED: dict[str, Any] = {
    "kind": "training",
    "name": "script-test",
    "version": 1,
    "needs": {"accelerator": "cpu"},
    "task": {
        "kind": "script",
        "command": ["python", "train.py"],
        "resume_arguments": [],
        "folder": "/app",
        "report": {"format": "jsonl", "loss": "loss"},
        "checkpoints": {"folder": "out", "every": 5},
    },
    "work": {"tokens": 4096, "flops": 1e6},
    "steps": {"discard": 5, "measure": 20},
    "fault": {"inject": "rank_kill", "at_step": 12},
    "repeats": {"per_slot": 2, "slots": ["02:00"]},
}


def workload(report: dict[str, str] | None = None, **changed: Any) -> ScriptWorkload:
    data = DECLARED | changed
    data["task"] = {k: v for k, v in (data["task"] | ({"report": report} if report else {})).items() if v is not None}
    return ScriptWorkload.model_validate_json(json.dumps({k: v for k, v in data.items() if v is not None}))


def simulated(declared: ScriptWorkload) -> ResultDocument:
    return simulate(trial(where=place(), workload=declared))  # type: ignore[arg-type]


def names(document: ResultDocument) -> set[str]:
    return {row.metric for row in document.metrics}


def test_its_document_is_whole_and_valid(tmp_path: Path) -> None:
    document = simulated(workload())
    assert ResultDocument.model_validate_json(document.model_dump_json()) == document and document.simulated
    report = check([document], [document.trial], tmp_path, "simulated")
    assert not report.problems and [v.action for v in report.verdicts.values()] == ["accept"]
    found = {f"{row.phase}.{row.metric}.{row.statistic}" for row in document.metrics if row.value is not None}
    assert set(required_metrics(document.trial)) <= found
    assert {"tokens_per_second_per_device", "model_flops_utilization", "checkpoint_size", "restart_penalty", "final_loss"} <= names(
        document
    )


def test_what_is_not_reported_has_no_number() -> None:
    plain = workload(report={"format": "jsonl", "step": "n"}, work=None, fault=None)
    document = simulated(plain)
    assert not {"tokens_per_second", "samples_per_second", "model_flops", "final_loss", "restart_penalty"} & names(document)
    assert required_metrics(document.trial) == ("steady.step_time.median",)
    assert primary_of(plain).metric == "step_time" and primary_of(workload()).metric == "tokens_per_second_per_device"
    counted = workload(report={"format": "jsonl", "step": "n", "samples": "s"}, work=None)
    assert "samples_per_second" in names(simulated(counted)) and primary_of(counted).metric == "samples_per_second_per_device"


def test_more_work_takes_longer() -> None:
    times = [simulated(workload(work={"tokens": tokens, "flops": 1e7})).value("step_time") or 0.0 for tokens in (4096, 65536)]
    assert times[0] < times[1]


def test_a_month_counts_it_by_its_work_or_by_the_limit() -> None:
    here = provider(launcher={"kind": "local", "cpus": [0, 1], "timeout": "10min"})
    unknown, known = workload(work={"tokens": 4096}), workload()
    assert estimate_trial_s(unknown, here) == limit_s(here, 1) == 600
    assert estimate_trial_s(known, here) < estimate_trial_s(workload(work={"tokens": 65536, "flops": 1e6}), here) < 600
    assert estimate_trial_s(workload(fault=None), here) < estimate_trial_s(known, here)
    assert estimate_workload(here, unknown, date(2026, 11, 1)).trial_s == 600


def test_its_scratch_is_that_of_caches() -> None:
    needed = scratch_needed(workload())
    assert needed is not None and (needed.checkpoints, needed.data, needed.weights) == (0, 0, 0) and needed.caches > 0


@pytest.mark.parametrize(("checkpoints", "every_s"), [({"folder": "out", "every": 5}, 5.0), (None, None)])
def test_an_interruption_is_that_of_its_checkpoints(checkpoints: dict[str, Any] | None, every_s: float | None) -> None:
    values = {"restart_penalty": 9.0, "restart_recompute_time": 3.0, "step_time": 1.0}
    declared = workload(task=DECLARED["task"] | {"checkpoints": checkpoints}, fault=None)
    found = measured_run(lambda metric, *_: values.get(metric), declared)
    assert found is not None and found[0].every_s == every_s
    assert found[0].restart_s == (6.0 if every_s else 9.0)


def test_a_script_is_no_lever_of_precision() -> None:
    document = simulated(workload())
    assert precision_levers([sample_of(document)], {"script-test": workload()}) == ()
