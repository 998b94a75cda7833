"""A broken declaration of a training script gives exactly one error: file, line, field, and what was expected instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import Golden

from plumbline.declarations import DeclarationError, ScriptWorkload, load

FILE = "workloads/training/script.yaml"
DECLARED = """\
kind: training
name: script
version: 1
needs: {accelerator: cpu}
task:
  kind: script
  command: [python, train.py]
  resume_arguments: [--resume]
  files: {source: folder, path: train}
  environment: {SPEED: "2"}
  report: {format: regex, pattern: 'step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)'}
  checkpoints: {folder: out, every: 5}
steps: {discard: 5, measure: 20}
fault: {inject: rank_kill, at_step: 12}
repeats: {per_slot: 2, slots: ["02:00"]}
"""
GIT = "files: {source: git, url: 'https://git.example.com/train', commit: %s}"
SHAPE = "{architecture: gpt, layers: 2, width: 64, heads: 4, vocabulary: 256, context: 64}"

BROKEN = [
    pytest.param("kind: script\n", "kind: scirpt\n", "6  task.kind", id="task"),
    pytest.param("  kind: script\n", "", "5  task.kind", id="no task"),
    pytest.param("command: [python, train.py]", "comand: [python, train.py]", "7  task.comand", id="misspelt key"),
    pytest.param("command: [python, train.py]", "command: python train.py", "7  task.command", id="command as text"),
    pytest.param("path: train}", "path: trian}", "9  task.files.path", id="missing folder"),
    pytest.param("path: train}", "path: ../train}", "9  task.files.path", id="folder outside"),
    pytest.param("path: train}", f"path: train, sha256: {'0' * 64}}}", "9  task.files.sha256", id="other files"),
    pytest.param("path: train}", "path: train, content: eJw=}", "9  task.files.content", id="content"),
    pytest.param("files: {source: folder, path: train}", GIT % "main", "9  task.files.commit", id="wrong commit"),
    pytest.param("files: {source: folder, path: train}", "folder: /", "9  task.folder", id="the whole system"),
    pytest.param("files: {source: folder, path: train}", "folder: /opt/../proc", "9  task.folder", id="a folder of the system"),
    pytest.param("SPEED:", "RANK:", "10  task.environment", id="variable of the harness"),
    pytest.param("'step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)'", "'step [0-9]+'", "11  task.report.pattern", id="no groups"),
    pytest.param("(?P<loss>", "(?P<lost>", "11  task.report.pattern", id="unknown group"),
    pytest.param("(?P<loss>[0-9.]+)'", "(?P<loss>[0-9.]+'", "11  task.report.pattern", id="no expression"),
    pytest.param("format: regex,", "format: regexp,", "11  task.report.format", id="no format"),
    pytest.param("  resume_arguments: [--resume]\n", "", "13  fault", id="no resume arguments"),
    pytest.param("  checkpoints: {folder: out, every: 5}\n", "", "13  fault", id="no checkpoints"),
    pytest.param("rank_kill", "checkpoint_kill", "14  fault.inject", id="fault inside a checkpoint"),
    pytest.param("needs: {accelerator: cpu}", "needs: {accelerator: cpu}\nparallelism: {processes: 2}", "5  parallelism.processes", id="ranks"),
    pytest.param("needs: {accelerator: cpu}", "needs: {accelerator: cpu, count: 2}\nparallelism: {strategy: fsdp, processes: 2}", "5  parallelism", id="strategy"),
    pytest.param("  report:", "  data: {from: data/set}\n  report:", "11  task.data.from", id="address of data"),
    pytest.param("  report:", "  data: {from: hub:org/set@main}\n  report:", "11  task.data.from", id="branch of data"),
    pytest.param("  report:", "  data: {from: /sets/../etc}\n  report:", "11  task.data.from", id="folder above"),
    pytest.param("  report:", "  data: {from: 's3://key@bucket/set'}\n  report:", "11  task.data.from", id="user in an address"),
    pytest.param("  report:", f"  data: {{from: /set, read: stream, sha256: {'0' * 64}}}\n  report:", "5  task", id="hash of a stream"),
    pytest.param("SPEED:", "PLUMBLINE_DATA:", "10  task.environment", id="variable of the data"),
    pytest.param("steps:", "work: {tokens: 8, samples: 2}\nsteps:", "13  work", id="two units"),
    pytest.param("steps:", f"work: {{flops: 6e6, shape: {SHAPE}}}\nsteps:", "13  work", id="flops and shape"),
    pytest.param("steps:", f"work: {{sequence: 128, shape: {SHAPE}}}\nsteps:", "13  work", id="sequence beyond the shape"),
    pytest.param("steps:", "work: {sequence: 128}\nsteps:", "13  work", id="sequence without a shape"),
    pytest.param("steps:", "work: {shape: {architecture: vit}}\nsteps:", "13  work.shape", id="a shape of no language model"),
]  # fmt: skip


@pytest.fixture
def scripts(config: Path) -> Path:
    (config / "scripts" / "train").mkdir(parents=True)
    (config / "scripts" / "train" / "train.py").write_text("print('step 0 loss 1.0')\n")
    (config / FILE).write_text(DECLARED)
    return config


def only_problem(config: Path, old: str, new: str) -> str:
    assert DECLARED.count(old) == 1
    (config / FILE).write_text(DECLARED.replace(old, new))
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert len(raised.value.problems) == 1, str(raised.value)
    return str(raised.value.problems[0])


def test_nothing_is_wrong_before_something_is_broken(scripts: Path) -> None:
    assert isinstance(load(scripts).workloads["script"], ScriptWorkload)


@pytest.mark.parametrize(("old", "new", "where"), BROKEN)
def test_one_clear_error(scripts: Path, old: str, new: str, where: str) -> None:
    problem = only_problem(scripts, old, new)
    assert problem.startswith(f"config/{FILE}:{where}"), problem


def test_each_error_names_what_is_wrong_and_what_is_expected(scripts: Path, golden: Golden) -> None:
    problems = [only_problem(scripts, old, new) for old, new, _ in (map(str, case.values) for case in BROKEN)]
    golden("declarations.broken_script", "\n".join(problems))
