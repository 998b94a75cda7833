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
from plumbline.results.schema import FILE, generated

FOLDER = Path(__file__).resolve().parents[2] / "data" / "results"
GOLDEN = sorted(FOLDER.glob("*.json"))
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
    Draft202012Validator(json.loads(FILE.read_text())).validate(json.loads(file.read_text()))


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
    assert list(Draft202012Validator(json.loads(FILE.read_text())).iter_errors(data))


def test_the_schema_in_the_repository_is_the_models() -> None:
    """`python -m plumbline.results.schema --write` brings it up to date."""
    assert FILE.read_text(encoding="utf-8") == generated()
    Draft202012Validator.check_schema(json.loads(FILE.read_text()))


def test_the_command_says_whether_it_is_up_to_date(tmp_path: Path) -> None:
    """In a copy of the library, since the command is about the file beside it."""
    import shutil

    shutil.copytree(FILE.parents[1], tmp_path / "plumbline", ignore=shutil.ignore_patterns("__pycache__"))
    copy = tmp_path / "plumbline" / "results" / FILE.name

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "plumbline.results.schema", *arguments]
        return subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)

    assert run().returncode == 0
    copy.write_text("{}")
    stale = run()
    assert stale.returncode == 1
    assert f"{schema.__name__} --write" in stale.stderr
    assert run("--write").returncode == 0
    assert copy.read_text() == FILE.read_text()
