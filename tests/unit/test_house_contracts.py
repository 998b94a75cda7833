"""Each import contract fails on a violation that is planted in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.quick_python import search_path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = re.findall(r'contracts\]\]\nname = "(.+)"', (ROOT / "pyproject.toml").read_text())
CLUSTER = "Only launch, airflow and its commands import the cluster"
PLANTED = [
    ("A room imports only from floors below it", "metrics/units.py", "import plumbline.declarations"),
    ("A room imports only from floors below it", "workflows/plan.py", "import plumbline.cli.app"),
    ("A room imports only from floors below it", "loadclient/wire.py", "import plumbline.declarations"),
    ("A room imports only from floors below it", "formats/jsonl.py", "import plumbline.declarations"),
    ("A room imports only from floors below it", "kinds/script.py", "import plumbline.analysis"),
    ("A room imports only from floors below it", "declarations/promises/capacity.py", "import plumbline.analysis.availability"),
    ("The harness runs in a pod: no airflow, no database, no cluster client", "harness/run.py", "import sqlalchemy"),
    ("A room imports only from floors below it", "answers/held_spans.py", "import plumbline.presentation"),
    ("Analysis is pure: data in, data out", "analysis/drift/effect.py", "import plumbline.archive"),
    ("Analysis is pure: data in, data out", "analysis/cost/budget.py", "import httpx"),
    ("A room imports only from floors below it", "analysis/drift/effect.py", "import plumbline.words.decisions"),
    (
        "Analysis and answers make no text of numbers: they import no formatting",
        "analysis/drift/effect.py",
        "from plumbline.metrics.formatting import format_change",
    ),
    (
        "Analysis and answers make no text of numbers: they import no formatting",
        "analysis/decisions/decide.py",
        "from plumbline.metrics.formatting import format_percent",
    ),
    (
        "Analysis and answers make no text of numbers: they import no formatting",
        "answers/held_spans.py",
        "from plumbline.metrics.formatting import join_words",
    ),
    ("Only airflow, embedded and dags import Airflow", "workflows/retain.py", "import airflow"),
    (
        CLUSTER,
        "workflows/accept_nodes.py",
        "import plumbline.launch.cluster.api",
    ),
    (
        CLUSTER,
        "cli/check.py",
        "def late():\n    from plumbline.launch.cluster import names",
    ),
    ("Commands read the views of presentation, not the pages", "cli/status.py", "import plumbline.dashboard.app"),
    ("The supervisor starts with the standard library and psutil", "embedded/supervisor.py", "import plumbline.declarations"),
    (
        "No circle, neither between rooms nor inside one",
        "analysis/drift/effect.py",
        "import plumbline.analysis.scorecards.scorecard\nimport plumbline.analysis.drift.compare",
    ),
    ("No circle, neither between rooms nor inside one", "declarations/base.py", "def late():\n    import plumbline.declarations.loader"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "include" / "plumbline", folder / "plumbline", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def broken(folder: Path) -> set[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    env = {**os.environ, "PYTHONPATH": search_path(folder), "NO_COLOR": "1", "COLUMNS": "200"}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    states = {name: state for name in CONTRACTS for state in ("KEPT", "BROKEN") if f"{name} {state}" in run.stdout}
    assert set(states) == set(CONTRACTS), run.stdout + run.stderr
    return {name for name, state in states.items() if state == "BROKEN"}


@pytest.fixture
def planted(copy: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    file, line = request.param
    path = copy / "plumbline" / file
    before = path.read_text()
    path.write_text(f"{before}\n{line}\n")
    yield copy
    path.write_text(before)


def test_the_copy_keeps_every_contract(copy: Path) -> None:
    assert broken(copy) == set()


@pytest.mark.parametrize(("planted", "contract"), [((file, line), name) for name, file, line in PLANTED], indirect=["planted"])
def test_a_planted_violation_breaks_the_contract(planted: Path, contract: str) -> None:
    assert contract in broken(planted)


def test_every_contract_has_a_planted_violation() -> None:
    assert {name for name, _, _ in PLANTED} == set(CONTRACTS)


def test_no_new_room_reaches_a_cluster() -> None:
    (contract,) = (
        c for c in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"] if c["name"] == CLUSTER
    )
    rooms = {path.stem for path in (ROOT / "include" / "plumbline").iterdir() if path.name != "__init__.py" and path.suffix in ("", ".py")}
    assert {f"plumbline.{room}" for room in rooms - {"launch", "airflow", "__pycache__"}} == set(contract["source_modules"])
