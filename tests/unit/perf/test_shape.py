"""The walks of the code map and the counts of a package, by `perf/shape.py`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from perf import shape

PAGE = """\
| 3 | `cli` | x |
| 2 | `workflows` | x |
| 1 | `analysis` | x |

## A walk

| step | function | value |
|---|---|---|
| down | `workflows.a.b` → `analysis.c.d`, `cli.not_part` | x |
| up | `analysis.e.f` → `workflows.g.h` | x |
| again | `cli.i.j` | x |

Text with `analysis.k.l` and `cli.m.n`.

## A form

| form | where |
|---|---|
| `cli.o.p` | x |

## Words
"""


def test_a_walk_climbs_inside_a_step_and_returns_between_steps() -> None:
    assert shape.walks(PAGE) == {"A walk": (3, 1, 1)}


def test_the_code_map_has_its_walks_and_none_climbs() -> None:
    walks = shape.walks((shape.ROOT / "docs" / "house.md").read_text(encoding="utf-8"))
    assert list(walks) == ["A training trial", "A latency sample", "A finding", "A price"]
    assert [heading for heading, (_, climbs, _) in walks.items() if climbs] == []


def test_a_feature_adds_a_file_and_own_names_are_those_of_the_package(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    def commit(**files: str) -> None:
        for name, text in files.items():
            file = tmp_path / "own" / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        git("add", "-A")
        git("commit", "-m", "x")

    git("init", "-q")
    commit(a="import os\n", room__b="from own.a import x, y\nfrom .c import z\nimport own.a\n")
    commit(a="import sys\n")
    git("mv", "own/a.py", "own/moved.py")
    commit()
    commit(room__c="", room__b="", moved="")
    assert shape.features(tmp_path, "own") == [(3, 2), (2, 2)]
    assert shape.own_names("from own.a import x, y\nfrom .c import z\nimport own.a\nimport os\n", "src/own") == 4
