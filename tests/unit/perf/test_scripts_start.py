"""Each script of perf/ starts: its module imports, its arguments are parsed, and the smallest form of the quick ones runs. In this process, as
a process each would take a minute."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "perf").glob("*.py"))
SLOW_IMPORTS = {"fleet_celery", "fleet_kills", "training_loops"}
"""Airflow, or transformers with PyTorch."""
PARSING = [script for script in SCRIPTS if "argparse" in script.read_text(encoding="utf-8")]


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import each other by name, as Python does for a script that it starts."""
    monkeypatch.syspath_prepend(str(ROOT / "perf"))


def module(name: str) -> ModuleType:
    return import_module(name)


def run(name: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, str, str]:
    """The exit status of its `main`, and what it prints."""
    monkeypatch.setattr(sys, "argv", [f"perf/{name}.py", *words])
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = module(name).main()
        except SystemExit as ended:
            status = ended.code
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    "script", [pytest.param(each, id=each.stem, marks=pytest.mark.full if each.stem in SLOW_IMPORTS else ()) for each in SCRIPTS]
)
def test_a_script_imports_and_says_what_it_measures(script: Path) -> None:
    assert module(script.stem).__doc__


@pytest.mark.parametrize("script", PARSING, ids=lambda script: script.stem)
def test_a_script_parses_its_arguments(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = run(script.stem, "--help", monkeypatch=monkeypatch)
    assert status == 0 and out.startswith("usage:")
    status, _, err = run(script.stem, "--no-such-option", monkeypatch=monkeypatch)
    assert (status == 2 and "--no-such-option" in err) or "required" in err


SMALLEST: dict[str, tuple[str, ...]] = {
    "acceptance": ("--fleets", "2", "--noise", "normal"),
    "serverless": ("--arrivals", "2000"),
}


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_form_prints_a_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = run(name, *SMALLEST[name], monkeypatch=monkeypatch)
    assert status in (None, 0, 1) and len(out.splitlines()) >= 2


def test_the_counts_and_sentences_of_a_small_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "include" / "plumbline").mkdir(parents=True)
    (tmp_path / "include" / "plumbline" / "one.py").write_text('"""One sentence of a module that says enough."""\n\nX = 1\n')
    assert printed(lambda: module("house_counts").main([tmp_path]))
    status, out, _ = run("house_sentences", str(tmp_path), "--count", "1", monkeypatch=monkeypatch)
    assert status in (None, 0) and out


def test_prices_are_replayed_from_a_file() -> None:
    from typer import Typer

    app = Typer()
    app.command()(module("prices").main)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    assert CliRunner().invoke(app, ["no-such-file.csv"]).exit_code != 0


def test_durations_of_a_suite_are_a_page() -> None:
    durations = module("suite_durations")
    assert "tests/unit/a.py" in durations.page({"before": durations.durations("1.50s call     tests/unit/a.py::test_one\n")})


def printed(what: Callable[[], object]) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        what()
    return out.getvalue()
