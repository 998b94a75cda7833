"""Whole manifests as people read them, held against the golden files and against what the APIs publish as their shape."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient
from tests.data.manifests.rewrite import CASES, FOLDER, text

from plumbline.launch.cluster.manifests.trial_pod import load_template
from plumbline.launch.cluster.names import EXPIRES, LAUNCH, MANAGED_BY, TRIAL

MODELS = {
    "Pod": "IoK8sApiCoreV1Pod",
    "JobSet": "JobsetV1alpha2JobSet",
    "TrainJob": "TrainerV1alpha1TrainJob",
    "TrainingRuntime": "TrainerV1alpha1TrainingRuntime",
}
RUNTIME = "training-runtime/training-runtime"


def lost(row: Any, kept: Any, where: str = "") -> Iterator[str]:
    """Paths in a row that its published shape does not know, or knows as something else."""
    if isinstance(row, dict) and isinstance(kept, dict):
        for key, value in row.items():
            yield from lost(value, kept.get(key), f"{where}.{key}")
    elif isinstance(row, list) and isinstance(kept, list) and len(row) == len(kept):
        for i, (one, other) in enumerate(zip(row, kept, strict=True)):
            yield from lost(one, other, f"{where}[{i}]")
    elif row != kept:
        yield f"{where}: {row!r} became {kept!r}"


def problems(row: dict[str, Any]) -> list[str]:
    """What the published model of the row's kind says against it."""
    from kubeflow_trainer_api import models  # takes 2 s, which only the process that runs these tests needs

    try:
        return list(lost(row, getattr(models, MODELS[row["kind"]]).from_dict(copy.deepcopy(row)).to_dict()))
    except ValueError as error:
        return [str(error)]


def documents(case: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / f"{case}.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_golden_file_is_what_is_made_now(case: str) -> None:
    assert text(case) == (FOLDER / f"{case}.yaml").read_text(encoding="utf-8"), "see tests/data/manifests/rewrite.py"


def test_every_golden_file_is_made_from_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(CASES)


ROWS = [pytest.param(row, id=f"{case}-{i}") for case in sorted(CASES) for i, row in enumerate(documents(case))]


@pytest.mark.parametrize("row", ROWS)
def test_every_object_can_be_found_and_expires(row: dict[str, Any]) -> None:
    metadata = row["metadata"]
    assert metadata["labels"][MANAGED_BY] == "plumbline" and metadata["name"].startswith(metadata["labels"][LAUNCH])
    assert metadata["annotations"][TRIAL] and int(metadata["annotations"][EXPIRES]) > 0


@pytest.mark.parametrize("row", [row for row in ROWS if row.values[0]["kind"] in MODELS])
def test_every_object_has_the_published_shape(row: dict[str, Any]) -> None:
    assert problems(row) == []


def test_the_runtime_that_train_jobs_refer_to_has_the_published_shape() -> None:
    runtime = load_template(RUNTIME)
    assert problems(runtime) == []
    assert load_template("trainjob")["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]


@pytest.mark.parametrize(
    ("case", "path", "value"),
    [
        ("jobset", ("spec", "failurePolicy", "maxRestart"), 0),
        ("jobset", ("spec", "replicatedJobs", 0, "template", "spec", "completions"), "2"),
        ("trainjob", ("spec", "podTemplateOverrides"), []),
        ("trainjob", ("spec", "trainer", "numNodes"), "2"),
        ("gpus-8", ("spec", "hostIpc"), True),
        ("gpus-8", ("spec", "containers", 0, "resources", "limit"), {}),
    ],
)
def test_a_shape_that_is_not_published_is_noticed(case: str, path: tuple[Any, ...], value: object) -> None:
    row = documents(case)[0]
    inner = row
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert problems(row)


@pytest.mark.parametrize("case", [case for case in sorted(CASES) if case not in ("jobset", "trainjob")])
def test_the_client_reads_core_objects_without_loss(case: str) -> None:
    api = ApiClient()
    for row in documents(case):
        read = api._ApiClient__deserialize(row, f"V1{row['kind']}")  # what its public methods do with an answer
        assert list(lost(row, api.sanitize_for_serialization(read))) == []
        assert list(lost({**row, "spec": {**row["spec"], "notThere": 1}}, api.sanitize_for_serialization(read)))


def merged(base: Any, patch: Any) -> Any:
    """The patch over the base, as Kubernetes merges the lists that occur here: entries by name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {
            key: merged(base.get(key), patch[key]) if key in patch else base[key] for key in [*base, *(k for k in patch if k not in base)]
        }
    if isinstance(base, list) and isinstance(patch, list) and all("name" in item for item in [*base, *patch]):
        named = {item["name"]: item for item in patch}
        found = [merged(item, named.pop(item["name"], {})) for item in base]
        return [*found, *named.values()]
    return patch


def test_a_train_job_and_its_runtime_together_give_the_same_pods_as_a_job_set() -> None:
    """Also what holds the runtime's copy of the pod template to the original."""
    (job,), (trainjob,) = documents("jobset"), documents("trainjob")
    (wanted,) = job["spec"]["replicatedJobs"]
    (patch,) = trainjob["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    (base,) = load_template(RUNTIME)["spec"]["template"]["spec"]["replicatedJobs"]
    found = merged(base, patch)
    trainer = trainjob["spec"]["trainer"]
    container = found["template"]["spec"]["template"]["spec"]["containers"][0]
    container |= {"image": trainer["image"], "args": trainer["args"], "resources": trainer["resourcesPerNode"]}
    container["env"] = merged(container["env"], trainer["env"])
    found["template"]["spec"] |= {"parallelism": trainer["numNodes"], "completions": trainer["numNodes"]}

    pods = wanted["template"]["spec"]["template"]["spec"]
    pods["containers"][0]["name"] = "node"
    del pods["activeDeadlineSeconds"]  # the TrainJob has its own
    del found["template"]["metadata"]  # the trainer's label, by which it knows the job
    del wanted["template"]["metadata"]  # ours, by which the sweep does: the trainer takes none for a Job
    assert found == wanted
    head = load_template("jobset")["spec"]
    assert {key: load_template(RUNTIME)["spec"]["template"]["spec"][key] for key in head if key != "replicatedJobs"} == {
        key: value for key, value in head.items() if key != "replicatedJobs"
    }
