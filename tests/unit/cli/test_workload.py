"""`plumbline workload check-prompts`; from-log is in tests/unit/workflows/test_workload_from_log.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.declarations.workloads.test_prompts import declare, lines
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.prompts import load_prompts


class _Declared:
    def __init__(self, *workloads: InferenceWorkload) -> None:
        self.inference_workloads = {each.name: each for each in workloads}


def invoke(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, name: str = "p.jsonl", **prompts: Any) -> Any:
    data = declare(**{"source": "file", "path": name, "format": "text", **prompts}) | {"name": "mine", "acceptance": []}
    assert load_prompts(data, folder) == []
    declared = InferenceWorkload.model_validate_json(json.dumps(data))
    monkeypatch.setattr("plumbline.cli.declared.load", lambda: _Declared(declared))
    return CliRunner().invoke(app, ["workload", "check-prompts", *words])


def test_lengths_are_those_of_the_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.jsonl").write_bytes(lines({"prompt": "a"}, {"prompt": "b c d e"}))
    done = invoke(monkeypatch, tmp_path, "inference/mine", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["prompts"], found["requests"], found["tokens"][0]) == (2, 2, 1) and found["context"] == 128
    assert len(found["sha256"]) == 64


def test_a_prompt_beyond_the_context_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.jsonl").write_bytes(lines({"prompt": "a"}, {"prompt": "b " * 500}))
    done = invoke(monkeypatch, tmp_path, "mine")
    assert done.exit_code == 2 and done.output.startswith("p.jsonl:2: ")


def test_an_unknown_workload_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.jsonl").write_bytes(lines({"prompt": "a"}))
    assert invoke(monkeypatch, tmp_path, "other").exit_code == 2
