"""docs/faq.md: the command of an answer does what the answer promises."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import checkpoints
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner, Result

from plumbline.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
SECTIONS = re.split(r"^## ", (ROOT / "docs" / "faq.md").read_text(encoding="utf-8"), flags=re.M)[1:]
ANSWERS = {section.splitlines()[0]: found[1] for section in SECTIONS if (found := re.search(r"^    (plumbline .+)$", section, re.M))}
"""The command of each question whose answer has one."""
SLOW = ("trial", "selfcheck")
"""Commands that measure this machine."""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two simulated campaigns, and the files that the answers name."""
    folder = tmp_path_factory.mktemp("faq")
    shutil.copytree(CONFIG, folder / "config")
    shutil.copy(ROOT / "tests" / "data" / "imported_results" / "aiperf-0.13.0.json", folder / "profile_export_aiperf.json")
    checkpoints.mixture(folder / "models" / "assistant")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_CONFIG", str(folder / "config"))
        patch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
        patch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
        patch.setenv("PLUMBLINE_HOME", str(folder / "home"))
        patch.chdir(folder)
        months = ("--provider", "simulated-2core", "--campaigns", "2026-01..2026-02", "--repeats", "2", "--home", str(folder / "home"))
        measured = [word for name in ("chat-tiny-cpu", "gpt-tiny-cpu") for word in ("--workload", name)]
        assert CliRunner().invoke(app, ["rehearse", *months, *measured]).exit_code == 0
        yield folder


def ask(command: str) -> Result:
    program, *words = shlex.split(command)
    assert program == "plumbline"
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize("question", [each for each, command in ANSWERS.items() if command.split()[1] not in SLOW])
def test_each_answer_s_command_runs(installation: Path, question: str) -> None:
    result = ask(ANSWERS[question])
    assert result.exit_code in (0, 4), result.output


@pytest.mark.full
@pytest.mark.parametrize("question", [each for each, command in ANSWERS.items() if command.split()[1] in SLOW])
def test_each_answer_s_measurement_runs(installation: Path, question: str) -> None:
    assert ask(ANSWERS[question]).exit_code == 0


def test_each_question_has_an_answer_and_at_most_one_command() -> None:
    answers = {section.splitlines()[0]: section.splitlines()[1:] for section in SECTIONS}
    assert [q for q, lines in answers.items() if not "".join(line for line in lines if not line.startswith("    ")).strip()] == []
    assert [q for q, lines in answers.items() if sum(line.startswith("    ") for line in lines) > 1] == []
    assert len(ANSWERS) > len(answers) / 2
