"""Whole manifests as people read them, held against the golden files and against what the APIs publish as their shape."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient
from tests.data.manifests.rewrite import CASES, FOLDER, text

from plumbline.launch.cluster.names import EXPIRES, LAUNCH, MANAGED_BY, TRIAL

MODELS = {
    "Pod": "IoK8sApiCoreV1Pod",
    "JobSet": "JobsetV1alpha2JobSet",
}


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


@pytest.mark.parametrize(
    ("case", "path", "value"),
    [
        ("jobset", ("spec", "failurePolicy", "maxRestart"), 0),
        ("jobset", ("spec", "replicatedJobs", 0, "template", "spec", "completions"), "2"),
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


@pytest.mark.parametrize("case", [case for case in sorted(CASES) if case != "jobset"])
def test_the_client_reads_core_objects_without_loss(case: str) -> None:
    api = ApiClient()
    for row in documents(case):
        read = api._ApiClient__deserialize(row, f"V1{row['kind']}")  # what its public methods do with an answer
        assert list(lost(row, api.sanitize_for_serialization(read))) == []
        assert list(lost({**row, "spec": {**row["spec"], "notThere": 1}}, api.sanitize_for_serialization(read)))
