"""The table of commands: each line is the command's own help, and `--help` imports none of them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from plumbline.cli.app import COMMANDS, app, load_command

GROUPS = ("Measure", "Read", "Decide", "Act", "Operate")
HELP = """
import sys
from plumbline.cli.app import app
try:
    app(["--help"])
except SystemExit:
    print(*sorted(name for name in ("pydantic", "sqlalchemy", "plumbline.declarations", "plumbline.archive") if name in sys.modules))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_is_the_first_paragraph_of_the_commands_help(name: str) -> None:
    command = load_command(name)
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].strip() == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_a_group(name: str) -> None:
    assert COMMANDS[name][2] in GROUPS


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"plumbline {version('plumbline')}\n")


@pytest.mark.parametrize(
    ("arguments", "same_as"),
    [
        (["version"], ["--version"]),
        (["help", "decide"], ["decide", "--help"]),
        (["findings", "show", "-h"], ["findings", "show", "--help"]),
    ],
)
def test_words_of_other_tools(arguments: list[str], same_as: list[str]) -> None:
    done, expected = CliRunner().invoke(app, arguments), CliRunner().invoke(app, same_as)
    assert (done.exit_code, done.stdout) == (0, expected.stdout)


def test_the_bare_command_is_three_lines_that_name_commands() -> None:
    done = CliRunner().invoke(app, [])
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 3)
    assert {"run", "status", "decide", "help"} <= {line.split()[1] for part in done.stdout.splitlines() for line in part.split(" · ")} | {
        "help"
    }


def test_help_imports_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert "selfcheck" in done.stdout
    places = [done.stdout.index(f"─ {group} ─") for group in GROUPS]
    assert places == sorted(places)
    assert done.stdout.splitlines()[-1] == ""


def test_a_list_of_findings_imports_no_statistics() -> None:
    code = "import sys, plumbline.cli.findings; print(*sorted({name.split('.')[0] for name in sys.modules} & {'scipy', 'pandas', 'numpy', 'airflow'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
