"""Documents that were written once stay readable, by the model and by the published schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from plumbline.declarations import criteria_hash, series_key, spec_hash
from plumbline.results import ResultDocument, schema
from plumbline.results.schema import schema_text

FOLDER = Path(__file__).resolve().parents[2] / "data" / "results"
GOLDEN = sorted(FOLDER.glob("*.json"))
SCHEMA = json.loads(schema_text())
STATUS = {"training": "valid", "inference": "degraded", "failed": "failed"}


def test_there_is_one_of_each() -> None:
    assert {file.stem for file in GOLDEN} == set(STATUS)


def _without_protocol(key: str) -> str:
    return re.sub(r"/h\d+/", "/", key)


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_the_model_reads_it(file: Path) -> None:
    document = ResultDocument.model_validate_json(file.read_bytes())
    assert document.validity.status == STATUS[file.stem]
    assert document.launch is not None
    trial = document.trial
    assert (trial.spec_hash, trial.criteria_hash) == (spec_hash(trial.workload), criteria_hash(trial.workload, trial.validity))
    # A document keeps the protocol that it was measured by; everything else of its key follows from its trial.
    assert _without_protocol(trial.series_key) == _without_protocol(series_key(trial.workload, trial.provider))
    again = ResultDocument.model_validate_json(document.model_dump_json())
    assert again == document
    assert again.checksum == document.content_hash()


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_the_schema_accepts_it(file: Path) -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(file.read_text()))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metrics", 0, "value"), "fast"),
        (("metrics", 0, "direction"), "up"),
        (("validity", "status"), "good"),
        (("validity", "failure_class"), "bad_luck"),
        (("environment", "environment_hash"), "0"),
        (("surprise",), 1),
        (("trial", "workload", "kind"), "tuning"),
    ],
)
def test_the_schema_refuses_what_it_should(path: tuple[Any, ...], value: object) -> None:
    data = json.loads((FOLDER / "training.json").read_text())
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert list(Draft202012Validator(SCHEMA).iter_errors(data))


def test_the_command_prints_the_schema() -> None:
    printed = subprocess.run([sys.executable, "-m", schema.__name__], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)
