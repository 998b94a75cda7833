"""Which tests take how long: `python perf/suite_durations.py BEFORE [AFTER]`, files that hold what `make test ARGS="--durations=0"` printed.

Prints a Markdown page with the sums, the slowest tests and the slowest files.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

SLOWEST = 30
_LINE = re.compile(r"^\s*([\d.]+)s (?:setup|call|teardown)\s+(\S.*)$")


def durations(log: str) -> dict[str, float]:
    """Seconds of each test: its fixtures, itself and what it takes down."""
    seconds: dict[str, float] = defaultdict(float)
    for line in log.splitlines():
        if match := _LINE.match(line):
            seconds[match[2]] += float(match[1])
    return dict(seconds)


def by_file(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each file."""
    files: dict[str, float] = defaultdict(float)
    for test, taken in seconds.items():
        files[test.split("::")[0]] += taken
    return dict(files)


def page(runs: Mapping[str, Mapping[str, float]]) -> str:
    """The page of runs by their names."""
    lines = ["| run | seconds of all tests | slowest test | slowest file |", "|---|---:|---:|---:|"]
    lines += [f"| {name} | {sum(s.values()):,.0f} | {max(s.values()):.0f} | {max(by_file(s).values()):.0f} |" for name, s in runs.items()]
    for name, seconds in runs.items():
        for what, values in (("tests", seconds), ("files", by_file(seconds))):
            slowest = sorted(values.items(), key=lambda item: -item[1])[:SLOWEST]
            lines += ["", f"## {name}: the slowest {what}", "", f"| seconds | {what} |", "|---:|---|"]
            lines += [f"| {taken:.1f} | `{one}` |" for one, taken in slowest]
    return "\n".join(lines)


if __name__ == "__main__":
    files = zip(("before", "after"), sys.argv[1:], strict=False)
    print(page({name: durations(Path(file).read_text(errors="replace")) for name, file in files}))
