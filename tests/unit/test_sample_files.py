"""docs/sample-files.md: each command runs on its sample, and every command that reads a file of the user has a row."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from plumbline.cli.app import COMMANDS, app, load_command

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sample-files.md").read_text(encoding="utf-8")
ROWS = re.findall(r"\| `plumbline ([^`]+)` \|", PAGE)
OWN = {"evidence export", "archive backup", "archive restore"}
"""Commands whose file Plumbline wrote, or will write."""


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "include" / "config", tmp_path / "config")
    shutil.copytree(ROOT / "docs" / "samples" / "config", tmp_path / "config", dirs_exist_ok=True)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(ROOT)
    return tmp_path


@pytest.mark.parametrize("command", ROWS)
def test_each_command_runs_on_its_sample(installation: Path, command: str) -> None:
    words, _, stdin = command.partition(" < ")
    result = CliRunner().invoke(app, shlex.split(words), input=Path(stdin).read_text(encoding="utf-8") if stdin else None)
    assert result.exit_code == 0 and result.stdout.strip(), result.output


def test_the_declarations_are_valid(installation: Path) -> None:
    result = CliRunner().invoke(app, ["check", "--all"])
    assert result.exit_code == 0 and "example-8x" in result.output, result.output


def test_prompts_are_of_the_declared_format(installation: Path) -> None:
    (installation / "config" / "prompts").mkdir(exist_ok=True)
    shutil.copy(ROOT / "docs" / "samples" / "prompts.jsonl", installation / "config" / "prompts")
    text = (ROOT / "include/config/workloads/inference/chat-tiny-cpu.yaml").read_text(encoding="utf-8")
    asked = (
        "requests:\n  prompts: {source: file, path: prompts.jsonl, format: text}\n  output_tokens: {constant: 4}\n  text: true\n  seed: 1\n"
    )
    own = re.sub(r"^requests:\n(?:[ #].*\n)+", asked, text.replace("name: chat-tiny-cpu", "name: questions"), flags=re.M)
    (installation / "config" / "workloads" / "inference" / "questions.yaml").write_text(own, encoding="utf-8")
    result = CliRunner().invoke(app, ["workload", "check-prompts", "questions"])
    assert result.exit_code == 0 and "2 prompts" in result.output, result.output


def leaves(path: str, command: Any) -> list[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        return [each for name, own in command.commands.items() for each in leaves(f"{path} {name}", own)]
    return [(path, command)]


def test_every_command_that_reads_a_file_has_a_sample() -> None:
    reading = {
        path
        for name in COMMANDS
        for path, command in leaves(name, load_command(name))
        if any(each.param_type_name == "argument" and (each.name == "file" or "FILE" in str(each.metavar)) for each in command.params)
    }
    assert len(reading) > 5
    assert [path for path in sorted(reading - OWN) if not any(row.startswith(path) for row in ROWS)] == []


def test_every_sample_is_on_the_page() -> None:
    samples = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / "samples").rglob("*") if path.is_file()}
    assert samples == set(re.findall(r"\]\((samples/[^)]+)\)", PAGE))
