"""The wheel in an environment of its own: its commands, its examples, a server under load, and what it says of an extra that is not there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.fakes.golden_triton import Golden

from plumbline.declarations.installation import REPOSITORY

assert REPOSITORY is not None
ROOT = REPOSITORY
UV = Path(sys.executable).with_name("uv")
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE")
VERSION = "7.8.9"

# One process: a start of each command would read the same modules three dozen times.
WALK = """
import contextlib, io, json, sys
from plumbline.cli.app import COMMANDS, app
ends = {}
for name in COMMANDS:
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            app([name, "--help"])
    except SystemExit as left:
        ends[name] = [left.code or 0, "Usage" in shown.getvalue()]
print(json.dumps([ends, sorted({module.partition(".")[0] for module in sys.modules})]))
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the bare wheel, and an empty folder to work in."""

    python: Path
    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        known = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in os.environ}
        command = [str(self.python), *words]
        return subprocess.run(command, cwd=self.folder, env=known, capture_output=True, text=True, check=False, timeout=240)

    def plumbline(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "plumbline.cli", *words)


def uv(*words: str, **variables: str) -> None:
    done = subprocess.run([str(UV), *words], env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("package")
    sources = base / "sources"
    for name in SOURCES:
        sources.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, sources)
    (sources / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "package.md", sources / "docs")
    shutil.copytree(ROOT / "include", sources / "include", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    uv("build", "--quiet", "--wheel", "--out-dir", str(base / "dist"), str(sources), SETUPTOOLS_SCM_PRETEND_VERSION=VERSION)
    (wheel,) = (base / "dist").glob("*.whl")
    environment = base / "environment"
    uv("venv", "--quiet", "--python", sys.executable, str(environment))
    python = environment / "bin" / "python"
    # As locked, so that the test is of our wheel and not of a release of today.
    uv("pip", "install", "--quiet", "--python", str(python), "--constraint", str(ROOT / "requirements.txt"), str(wheel))
    work = base / "work"
    work.mkdir()
    return Installed(python, work)


def test_each_command_shows_its_help_without_an_extra(installed: Installed) -> None:
    done = installed.run("-c", WALK)
    assert done.returncode == 0, done.stderr
    ends, modules = json.loads(done.stdout)
    assert len(ends) > 30 and {name: end for name, end in ends.items() if end != [0, True]} == {}
    assert not {"airflow", "faiss", "matplotlib", "pandas", "plotly", "pyarrow", "torch", "transformers"} & set(modules)


def test_the_version_is_the_tags(installed: Installed) -> None:
    assert installed.plumbline("--version").stdout == f"plumbline {VERSION}\n"


def test_declarations_are_missing_in_one_sentence_that_brings_the_examples(installed: Installed, tmp_path: Path) -> None:
    installed = replace(installed, folder=tmp_path)
    missing = installed.plumbline("check")
    assert missing.returncode == 2 and "PLUMBLINE_CONFIG" in missing.stderr and "Traceback" not in missing.stderr
    command = missing.stderr.partition("examples: ")[2].splitlines()[0]
    subprocess.run(command, shell=True, cwd=installed.folder, check=True)
    checked = installed.plumbline("check")
    assert checked.returncode == 0, checked.stderr
    shipped = {path.relative_to(ROOT / "include" / "config") for path in (ROOT / "include" / "config").rglob("*") if path.is_file()}
    config = installed.folder / "config"
    assert {path.relative_to(config) for path in config.rglob("*") if path.is_file()} == shipped


def test_a_real_server_is_loaded(installed: Installed) -> None:
    with Golden(delays_s=[0.01] * 40) as golden:
        done = installed.plumbline("load", golden.address, "--model", "vector", "--rate", "20", "--for", "1s", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["finished"] == report["requests"] > 5 and report["errors"] == {}


@pytest.mark.parametrize(("command", "extras"), [("report", "server"), ("selfcheck", "harness"), ("run", "airflow,harness")])
def test_a_missing_extra_is_one_sentence(installed: Installed, command: str, extras: str) -> None:
    done = installed.plumbline(command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'plumbline {command} needs plumbline[{extras}]: pip install "plumbline[{extras}]"\n'


def test_pod_templates_come_with_the_package(installed: Installed) -> None:
    code = "from plumbline.launch.cluster.manifests.trial_pod import load_template as t; print(*(t(n)['kind'] for n in ('pod', 'jobset', 'service')))"
    done = installed.run("-c", code)
    assert done.stdout.split() == ["Pod", "JobSet", "Service"], done.stderr
