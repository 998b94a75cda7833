"""A training script in a trial: its class, its hashes and series, and what its report says."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import cluster_provider, declared, local_provider

from plumbline.declarations import Provider, ScriptWorkload, TrainingWorkload, Trial, incompatibility, series_key, spec_hash
from plumbline.declarations.loader import load_file
from plumbline.declarations.trials import specification, without_defaults
from plumbline.harness.gang.topology import topology_of
from plumbline.launch.plan import RunRequest, single_trial

ROOT = Path(__file__).resolve().parents[4]
SAMPLE = ROOT / "docs" / "samples" / "trainer.yaml"
NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
LOCAL = local_provider()
IMAGE = "localhost/plumbline/cpu:test"


def trainer() -> ScriptWorkload:
    return load_file(SAMPLE, TrainingWorkload)  # type: ignore[return-value]


def changed(**task: Any) -> ScriptWorkload:
    data = trainer().model_dump(mode="json", exclude_defaults=True)
    return ScriptWorkload.model_validate_json(json.dumps(data | {"task": data["task"] | task}))


def trial_of(workload: ScriptWorkload, provider: Provider = LOCAL) -> Trial:
    return single_trial(declared(), provider, workload, RunRequest("a-test", "a test"), NOW)


def test_a_trial_brings_the_script_back(tmp_path: Path) -> None:
    trial = trial_of(trainer())
    again = Trial.model_validate_json(trial.model_dump_json())
    assert again == trial and isinstance(again.workload, ScriptWorkload)
    assert Trial.model_validate(trial.model_dump()) == trial
    assert Trial.model_validate_json(json.dumps(without_defaults(trial))) == trial
    assert trial.series_key.split("/")[:4] == ["training", "trainer@1", "h6", "script"]
    assert isinstance(
        Trial.model_validate_json(trial_of(declared().workloads["gpt-tiny-cpu"]).model_dump_json()).workload, TrainingWorkload
    )


def test_what_is_measured_is_the_files_and_not_how_they_are_packed() -> None:
    workload = trainer()
    files = workload.task.files
    assert files is not None and files.source == "folder"
    repacked = changed(files=files.model_dump(mode="json") | {"content": "eJw="}, private=True)
    assert spec_hash(repacked) == spec_hash(workload)
    assert spec_hash(changed(files=files.model_dump(mode="json") | {"sha256": "0" * 64})) != spec_hash(workload)
    assert spec_hash(changed(command=["python", "train.py"])) != spec_hash(workload)
    assert "content" not in json.dumps(specification(workload))
    assert series_key(workload, LOCAL) == series_key(changed(command=["python", "other.py"]), LOCAL)


@pytest.mark.parametrize(
    ("report", "reported", "reading"),
    [
        ({"format": "nanogpt"}, {"step", "loss", "milliseconds"}, "lines in nanogpt's format, in its output"),
        (
            {"format": "jsonl", "loss": "l", "samples": "n", "file": "log.jsonl"},
            {"loss", "samples"},
            "lines in jsonl's format, in log.jsonl",
        ),
        ({"format": "regex", "pattern": "(?P<loss>.+)"}, {"loss"}, "lines that match (?P<loss>.+), in its output"),
        ({"format": "tensorboard", "folder": "runs", "loss": "l"}, {"loss"}, "TensorBoard's event files below runs"),
        ({"format": "reporter"}, None, "plumbline_report.py, which the script calls"),
    ],
)
def test_what_a_report_holds(report: dict[str, str], reported: set[str] | None, reading: str) -> None:
    task = changed(report=report).task
    assert (task.reported, task.reading) == (reported, reading)


def test_work_is_declared_or_reported() -> None:
    assert trainer().work_per_step == ("tokens", 1024.0) and trainer().counts_work
    data = trainer().model_dump(mode="json", exclude_defaults=True)
    without = ScriptWorkload.model_validate_json(json.dumps({k: v for k, v in data.items() if k != "work"}))
    assert without.work_per_step == ("tokens", None) and not without.counts_work
    samples = without.model_copy(update={"task": changed(report={"format": "jsonl", "loss": "l", "samples": "n"}).task})
    assert samples.work_per_step == ("samples", None) and samples.counts_work


def test_ranks_that_a_launcher_of_its_own_starts_are_one_process() -> None:
    two = {"needs": {"accelerator": "cpu", "count": 2}, "parallelism": {"processes": 2}}
    place = local_provider(cpus=[0, 1])
    for launches, started in ((False, 2), (True, 1)):
        data = changed(launches_ranks=launches).model_dump(mode="json", exclude_defaults=True) | two
        workload = ScriptWorkload.model_validate_json(json.dumps(data))
        assert topology_of(trial_of(workload, place), {}).processes == started


def test_private_files_need_a_folder_in_the_pod() -> None:
    private = changed(private=True)
    assert incompatibility(private, LOCAL) is None
    refused = incompatibility(private, cluster_provider())
    assert refused is not None and "its task.files are private files" in refused and "SCRIPTS_FOLDER" in refused
    assert incompatibility(private, cluster_provider(env={"SCRIPTS_FOLDER": "/scripts"})) is None
    assert incompatibility(trainer(), cluster_provider()) is None


def test_its_own_image_replaces_the_providers() -> None:
    from plumbline.launch.cluster.names import trial_image

    own = "team/train@sha256:" + "2" * 64
    place = cluster_provider(registry="mirror.example.com", images={"inference": "team/serve@sha256:" + "1" * 64})
    refused = incompatibility(trainer(), place)
    assert refused is not None and "no image for training" in refused
    assert incompatibility(changed(image=own), place) is None
    assert trial_image(trial_of(changed(image=own), place)) == f"mirror.example.com/{own}"
    assert trial_image(trial_of(trainer(), cluster_provider())) == IMAGE
