"""The load client stands alone: what `drive` imports is counted, and no other room is in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "include" / "plumbline"
OURS = (
    "import json, sys, {module}; print(json.dumps({{n: m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'plumbline'}}))"
)


def closure(module: str, package: Path = PACKAGE) -> dict[str, str]:
    """The modules of ours, with their files, that a new process has after importing `module`."""
    command = [sys.executable, "-c", OURS.format(module=module)]
    found = subprocess.run(command, cwd=package.parent, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(found))


def rooms(modules: dict[str, str]) -> set[str]:
    return {name.split(".")[1] for name in modules if "." in name}


def test_drive_imports_no_other_room_and_stays_small() -> None:
    modules = closure("plumbline.loadclient.load_generator")
    assert rooms(modules) == {"loadclient"}
    assert len(modules) <= 20
    assert sum(len(Path(file).read_text().splitlines()) for file in modules.values()) <= 4_500


def test_each_module_of_the_room_imports_nothing_else_of_ours_but_metrics() -> None:
    names = sorted(path.stem for path in (PACKAGE / "loadclient").glob("*.py"))
    assert len(names) > 20
    imports = ", plumbline.loadclient.".join(name for name in names if name != "__init__")
    assert rooms(closure(f"plumbline.loadclient.{imports}")) <= {"loadclient", "metrics"}


def test_another_room_is_noticed() -> None:
    assert rooms(closure("plumbline.loadclient.wire, plumbline.declarations.workloads.script")) == {
        "loadclient",
        "declarations",
        "formats",
        "metrics",
        "on_demand",
    }
