"""A kind of workload is one file: dropped into the room, a toy is checked, planned, simulated, judged, scored and named in a headline."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.documented import ROOT, page
from tests.fakes.quick_python import search_path
from tests.fakes.simulated_campaigns import config
from typer.testing import CliRunner

import plumbline
from plumbline.cli.app import app
from plumbline.declarations import AnyWorkload, InferenceWorkload
from plumbline.kinds import KINDS, WorkloadKind, kind_of_series, register

PACKAGE = Path(plumbline.__file__).parent
TOY = '''
"""A job that copies files."""

from typing import Literal

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.workload import Primary, Workload
from plumbline.kinds import Simulated, WorkloadKind, register
from plumbline.metrics.units import ByteSize


class CopyTask(Declared):
    kind: Literal["copy"]
    size: ByteSize


class CopyWorkload(Workload):
    kind: Literal["training"]
    task: CopyTask

    @property
    def task_kind(self) -> str:
        return self.task.kind


@register
class Copy(WorkloadKind[CopyWorkload]):
    declaration = CopyWorkload
    wire_kind = "training"
    task = "copy"
    verb = "copies"
    measured_by = "copy_job.measure"
    has_outcome = False

    def primary(self, workload):
        return Primary.model_validate("command_time in steady")

    def required(self, workload):
        return ("steady.command_time.value",)

    def trial_s(self, workload, provider, allow):
        return workload.task.size / allow.disk

    def simulate(self, workload, has, draw):
        took = workload.task.size / has.disk
        return Simulated([draw.row("command_time", took, 1)], took)
'''
WORKLOAD = """\
kind: training
name: nightly
version: 1
needs: {accelerator: cpu, count: 1}
task: {kind: copy, size: 400GB}
drift: {command_time: {warn: 5%, page: 15%}}
repeats: {per_slot: 3, slots: ["02:00", "14:00"]}
"""
RUN = """\
import json, sys
from typer.testing import CliRunner
from plumbline.cli.app import app

done = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[one.exit_code, one.stdout, " ".join(one.stderr.split())] for one in done]))
"""
REHEARSE = ("rehearse", "--provider", "sim", "--workload", "nightly", "--campaigns", "2024-01..2024-04", "--json")

Commands = Callable[..., list[tuple[int, str, str]]]
"""commands(*words, home=None): exit status, output and errors of each in one process whose room of kinds has the file."""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The package with one file more in the room of kinds, everything else a link to its own; a simulated provider that gets slower in March."""
    folder = tmp_path / "site" / "plumbline"
    for source, copy in ((PACKAGE, folder), (PACKAGE / "kinds", folder / "kinds")):
        copy.mkdir(parents=True)
        for each in source.iterdir():
            if each.name not in ("kinds", "__pycache__"):
                (copy / each.name).symlink_to(each)
    (folder / "kinds" / "copy_job.py").write_text(TOY)
    declared = config(tmp_path, [{"kind": "step", "since": "2024-03", "worse": "25%", "workloads": ["nightly"]}])
    (declared / "workloads" / "training" / "nightly.yaml").write_text(WORKLOAD)
    for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(declared))

    def call(*words: tuple[str, ...], home: Path | None = None) -> list[tuple[int, str, str]]:
        own = {} if home is None else {"PLUMBLINE_HOME": str(home)}
        env = {**os.environ, "PYTHONPATH": search_path(tmp_path / "site", ROOT), **own}
        command = [sys.executable, "-c", RUN, json.dumps(words)]
        text = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=True).stdout
        return [(code, stdout, stderr) for code, stdout, stderr in json.loads(text.splitlines()[-1])]

    return call


@pytest.mark.integration
def test_a_kind_of_one_file_is_planned_simulated_judged_and_scored(commands: Commands, tmp_path: Path) -> None:
    check, rehearsed = commands(("check", "--json"), REHEARSE)
    assert check[0] == 0, check[2]
    (row,) = (row for row in json.loads(check[1])["would_run"] if row["workload"] == "nightly")
    assert row["trial_s"] == pytest.approx(4e11 / 5e8 + 1 + 4 + 1) and row["measured"] == 0
    assert rehearsed[0] == 0, rehearsed[2]
    months: list[dict[str, Any]] = json.loads(rehearsed[1])
    assert [month["statuses"] for month in months] == [{"valid": 6}] * 4
    home = tmp_path / "home" / "rehearsal"
    found, scored = commands(("findings", "list", "--all", "--json"), ("scorecard", "--json"), home=home)
    (finding,) = json.loads(found[1])["findings"]
    assert finding["headline"].startswith("sim copies nightly ") and "slower since March 2024" in finding["headline"]
    assert "/copy/sim/" in finding["series_key"]
    (card,) = json.loads(scored[1])["scorecards"]
    assert card["workload"] == "nightly" and next(row["metric"] for row in card["rows"] if row["leading"]) == "command_time"
    gone = CliRunner().invoke(app, ["check"])
    assert gone.exit_code == 2 and 'task.kind: "copy" is not known; expected one of language_model' in " ".join(gone.stderr.split())


def test_a_class_and_a_task_have_one_kind() -> None:
    before = dict(KINDS)
    serving = type(KINDS[InferenceWorkload])
    with pytest.raises(ValueError, match="script has a kind of workload already"):
        register(type("Second", (serving,), {"task": "script"}))
    with pytest.raises(ValueError, match="InferenceWorkload has a kind of workload already"):
        register(type("Second", (serving,), {}))
    assert before == KINDS


def test_each_kind_has_a_file_of_its_own_and_each_class_a_kind() -> None:
    files = [Path(sys.modules[type(kind).__module__].__file__ or "") for kind in KINDS.values()]
    assert sorted(file.stem for file in files) == sorted(
        p.stem for p in (PACKAGE / "kinds").glob("*.py") if p.stem not in ("__init__", "base")
    )
    assert set(KINDS) == set(get_args(AnyWorkload))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: type(kind).__name__)
def test_the_module_that_measures_a_kind_exists(kind: WorkloadKind[Any]) -> None:
    found = importlib.util.find_spec(kind.measured_by)
    assert found is not None and found.origin is not None
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    assert "measure" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_series_says_its_kind() -> None:
    verbs = {
        "training/gpt@1/h6/torch/p/r/i": "trains",
        "training/job@1/h6/script/p/r/i": "runs",
        "training/fio@1/h6/container/p/r/i": "runs",
        "inference/chat@1/h7/triton-vllm/p/r/i": "serves",
        "inference/chat@1/h7/external/p/r/i": "serves",
        "training/s1": "trains",
    }
    assert {key: getattr(kind_of_series(key.partition("/")[0], key), "verb", None) for key in verbs} == verbs
    assert kind_of_series("", "") is None and kind_of_series("environment", "environment") is None


def test_the_toy_of_the_page_is_the_one_that_is_tried() -> None:
    assert TOY.strip() in page("extend")
