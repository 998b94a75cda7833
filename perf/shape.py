"""The shape of this house beside others: `python perf/shape.py [CHECKOUT:PACKAGE …]`. It blocks nothing.

Of each checkout (or bare repository) with its history: what the last ten commits that added a file to the package touched in it, how many
names a file takes from its own package, and how long files are. Of this house also the walks of docs/house.md: rooms, climbs and returns.
A climb goes from a floor to a higher one inside a step; a return begins a step above the floor on which the one before it ended.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEATURES = 10
_NAME = re.compile(r"`((?:\w+\.)+\w+)`")


def _git(repository: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True).stdout


def git(repository: Path, *words: str) -> str:
    return _git(repository, *words).decode(errors="replace")


def features(repository: Path, package: str) -> list[tuple[int, int]]:
    """(files, rooms) of the package that each of the last ten commits touched which added a Python file to it; merges are left out."""
    found = []
    for commit in git(repository, "log", "--no-merges", "--diff-filter=A", "--format=%h", "--", f"{package}/*.py").split():
        changed = [
            line.split("\t") for line in git(repository, "show", "--format=", "--name-status", "-M", commit, "--", package).splitlines()
        ]
        files = [words[-1] for words in changed]
        if all(words[0].startswith("R") or not words[-1].endswith(".py") or words[0] != "A" for words in changed):
            continue  # it moved files
        found.append((len(files), len({room(file, package) for file in files})))
        if len(found) == FEATURES:
            break
    return found


def room(file: str, package: str) -> str:
    """The folder below the package; files of the package itself are one room."""
    return file.removeprefix(f"{package}/").rpartition("/")[0].partition("/")[0]


def sources(repository: Path, package: str) -> Iterator[str]:
    with tarfile.open(fileobj=io.BytesIO(_git(repository, "archive", "HEAD", package))) as tree:
        for member in tree:
            if member.isfile() and member.name.endswith(".py") and (file := tree.extractfile(member)):
                yield file.read().decode(errors="replace")


def own_names(text: str, package: str) -> int | None:
    """Names that a file imports from its own package, also for types alone and inside functions. None of newer syntax than this Python's."""
    top = package.rpartition("/")[2]
    names: set[str] = set()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == top):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.split(".")[0] == top}
    return len(names)


def house(repository: Path, package: str) -> dict[str, str]:
    touched, texts = features(repository, package), list(sources(repository, package))
    imports = sorted(count for text in texts if (count := own_names(text, package)) is not None)
    lines = sorted(len(text.splitlines()) for text in texts)
    return {
        "files in the package": f"{len(texts)}" + (f" ({unread} not parsed)" if (unread := len(texts) - len(imports)) else ""),
        "lines of a file: median, longest": f"{statistics.median(lines):.0f}, {lines[-1]}",
        "own names that a file imports: median, 90th percentile": f"{statistics.median(imports):.0f}, {imports[len(imports) * 9 // 10]}",
        "files of the package in a feature: median, most": _median_most([files for files, _ in touched]),
        "rooms in a feature: median, most": _median_most([rooms for _, rooms in touched]),
    }


def _median_most(numbers: Sequence[int]) -> str:
    return f"{statistics.median(numbers):.1f}, {max(numbers)}" if numbers else "none"


def walks(page: str) -> dict[str, tuple[int, int, int]]:
    """By heading of docs/house.md: rooms, climbs and returns of the functions that its steps name, in their order. Views that stand beside each
    other in a step, after a comma, are no walk."""
    floors = {name: int(floor) for floor, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.M)}
    found = {}
    for heading, text in re.findall(r"^## (A .+?)\n\n(.+?)(?=^## )", page, re.M | re.S):
        if not text.startswith(("| step", "1. ")):
            continue  # forms of a thing, and no walk
        lines = re.sub(r"\n   +", " ", text.split("\n\n")[0]).splitlines()
        steps = [[n.split(".")[0] for n in _NAME.findall(line.split("`,")[0] + "`") if n.split(".")[0] in floors] for line in lines]
        steps = [rooms for rooms in steps if rooms]
        climbs = sum(floors[a] < floors[b] for rooms in steps for a, b in pairwise(rooms))
        returns = sum(floors[before[-1]] < floors[after[0]] for before, after in pairwise(steps))
        found[heading] = (len({name for rooms in steps for name in rooms}), climbs, returns)
    return found


def main(others: Sequence[str]) -> None:
    checkouts = [(ROOT, "include/plumbline")] + [(Path(a), package) for a, _, package in (other.rpartition(":") for other in others)]
    names = [package.rpartition("/")[2] for _, package in checkouts]
    columns = {name: house(*each) for name, each in zip(names, checkouts, strict=True)}
    print("| |" + "".join(f" {name} |" for name in columns) + "\n|---|" + "---:|" * len(columns))
    for row in next(iter(columns.values())):
        print(f"| {row} |" + "".join(f" {column[row]} |" for column in columns.values()))
    print("\n| walk | rooms | climbs | returns |\n|---|---:|---:|---:|")
    for heading, counted in walks((ROOT / "docs" / "house.md").read_text()).items():
        print(f"| {heading.lower()} | " + " | ".join(map(str, counted)) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
