"""`plumbline airflow init` writes DAG files and declarations once, for each layout, and says what is left to do."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.airflow import dags
from plumbline.airflow.dags import NAMES
from plumbline.cli.airflow_layouts import LAYOUTS
from plumbline.cli.app import app
from plumbline.declarations import load
from plumbline.workflows.plan import pool_slots

ROOT = Path(__file__).resolve().parents[3]


def init(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["airflow", "init", *words])
    return done.exit_code, done.output


def test_every_layout_gets_the_dag_files_and_valid_declarations(tmp_path: Path) -> None:
    for name, layout in LAYOUTS.items():
        code, text = init(str(tmp_path / name), "--for", name)
        assert code == 0, text
        files = sorted((tmp_path / name / layout.dags).glob("*.py"))
        assert [file.stem for file in files] == [f"plumbline_{each}" for each in NAMES]
        assert all(len(ast.parse(file.read_text()).body) == 3 for file in files), "a docstring, an import, a call"
        declared = load(tmp_path / name / layout.config)
        assert f"PLUMBLINE_CONFIG={layout.root}/{layout.config}" in text
        assert all(pool in text for pool in pool_slots(declared.enabled_providers()))
        assert ("not tried" in text) == layout.untried


def test_nothing_is_replaced_and_nothing_half_written(tmp_path: Path) -> None:
    mine = tmp_path / "dags" / "plumbline" / "plumbline_rerun.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine = 1\n")
    code, text = init(str(tmp_path))
    assert code == 1 and str(mine) in text.replace("\n", "") and "nothing was written" in text
    assert mine.read_text() == "mine = 1\n" and [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]


@pytest.mark.parametrize("prefix", ["Plumbline_", "plumbline", "a-b_", "x" * 60 + "_"])
def test_a_prefix_that_is_none_is_one_sentence(tmp_path: Path, prefix: str) -> None:
    code, text = init(str(tmp_path), "--prefix", prefix)
    assert code == 2 and "expected a letter" in " ".join(text.split()) and not list(tmp_path.iterdir())


def test_json_names_what_was_written_and_what_remains(tmp_path: Path) -> None:
    code, text = init(str(tmp_path), "--for", "mwaa", "--prefix", "", "--json")
    row = json.loads(text)
    assert code == 0 and len(row["written"]) == len(NAMES) + 1 and all(Path(each).exists() for each in row["written"])
    assert row["remaining"]["untried"] and any("execution role" in note for note in row["remaining"]["notes"])


PREFIXED = """
from plumbline.declarations import dag_ids, load
from plumbline.workflows.plan import ACTION_DAG, CONNECTIONS_TASK, RepeatRequest
from plumbline.workflows.finding_action import ActionRequest
from plumbline.embedded.doctor.dag_files import declared_dags
from pathlib import Path
import sys
ids = [load().enabled_providers()[0].dag_id, ACTION_DAG, CONNECTIONS_TASK[0], RepeatRequest.dag_id, ActionRequest.dag_id, *declared_dags(Path(sys.argv[1]))]
print(*ids)
"""


def test_everything_that_names_a_dag_follows_the_prefix(tmp_path: Path) -> None:
    init(str(tmp_path), "--prefix", "gpu_")
    env = {**os.environ, "PLUMBLINE_CONFIG": str(tmp_path / "plumbline"), "PYTHONPATH": str(ROOT / "include")}
    line = [sys.executable, "-c", PREFIXED, str(tmp_path / "dags")]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    ids = done.stdout.split()
    assert len(ids) == 5 + 11 and all(each.startswith("gpu_") for each in ids), ids


def test_a_dag_file_of_another_release_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dags, "installed_version", lambda: "0.2.1")
    with pytest.raises(ImportError, match=r"written by plumbline 0\.1\.0 and plumbline 0\.2\.1 is installed"):
        dags.build("rerun", written_for="0.1.0")


def test_a_broken_prefix_stops_the_dag_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init(str(tmp_path))
    file = tmp_path / "plumbline" / "airflow.yaml"
    file.write_text(re.sub("plumbline_", "Not A Prefix", file.read_text()))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "plumbline"))
    with pytest.raises(ValueError, match=r"airflow\.yaml cannot be read"):
        dags.build("rerun")
    checked = CliRunner().invoke(app, ["check"])
    assert checked.exit_code == 2 and "airflow.yaml" in checked.output and "dag_prefix" in checked.output
