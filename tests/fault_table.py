"""The tests that hold one promise of reliability each, as one table: docs/reliability.md lists them, `make test-faults` runs them.

A row is a marker on a test, `@pytest.mark.fault(breaks, ends=…, keeps=…)`, three literal strings. Read from the source rather than from
pytest's collection, so that the table names also what needs a cluster that is not there.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
START, END = "<!-- rows: python -m tests.fault_table --write -->", "<!-- end of rows -->"
LIMIT = 90
"""Characters of a cell: a table that needs more explains instead of naming."""

SECTIONS = {
    "In the pod: training": ("tests/unit/harness/training", "tests/integration/test_training", "tests/integration/test_pod_replacement"),
    "In the pod: inference": ("tests/unit/harness/inference", "tests/integration/test_inference"),
    "In the pod: all trials": ("tests/unit/harness", "tests/integration/test_harness", "tests/integration/test_serve"),
    "Launching": ("tests/unit/launch", "tests/integration/test_cluster", "tests/integration/test_pod", "tests/integration/test_local"),
    "On a real cluster": ("tests/cluster",),
    "Declarations": ("tests/unit/declarations",),
    "Results on their way home": ("tests/unit/results", "tests/unit/quality", "tests/integration/test_store"),
    "Archive": ("tests/unit/archive", "tests/integration/test_archive"),
    "Airflow and our own failures": ("tests/unit/orchestration", "tests/unit/drift", "tests/dags", "tests/integration/test_airflow"),
    "Alerts": ("tests/unit/alerts", "tests/integration/test_slack"),
    "Commands, pages and servers": ("tests",),
}
"""Heading → beginnings of the paths whose rows it holds; the first that fits."""


@dataclass(frozen=True)
class Row:
    breaks: str
    ends: str
    keeps: str
    path: str
    test: str
    full: bool

    @property
    def section(self) -> str:
        return next(heading for heading, paths in SECTIONS.items() if self.path.startswith(paths))

    def matches(self, nodeid: str) -> bool:
        """Whether a test that ran, by pytest's name of it, is one of this row's."""
        path, _, name = nodeid.partition("::")
        return path == self.path and name.split("[")[0] == self.test


def _literals(call: ast.Call, where: str) -> tuple[str, str, str]:
    values = [*call.args, *(next((k.value for k in call.keywords if k.arg == name), None) for name in ("ends", "keeps"))]
    texts = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    if len(call.args) != 1 or len(texts) != 3 or len(call.keywords) != 2:
        raise ValueError(f'{where}: expected fault("what breaks", ends="…", keeps="…"), three literal strings')
    for text in texts:
        if not text or len(text) > LIMIT or "|" in text:
            raise ValueError(f"{where}: {text!r}: expected 1 to {LIMIT} characters without |")
    return texts[0], texts[1], texts[2]


def _marks(function: ast.AST, name: str) -> Iterator[ast.Call | ast.Attribute]:
    """`pytest.mark.<name>` in the decorators of a test, also inside `pytest.param(…, marks=…)`."""
    for decorator in getattr(function, "decorator_list", []):
        for node in ast.walk(decorator):
            target = node.func if isinstance(node, ast.Call) else node
            if isinstance(target, ast.Attribute) and target.attr == name and ast.unparse(target) == f"pytest.mark.{name}":
                yield node if isinstance(node, ast.Call) else target


def _is_full(function: ast.FunctionDef | ast.AsyncFunctionDef, fault: ast.Call) -> bool:
    """Whether no quick test is behind this mark: the function is marked full, or the case that has the mark. A case of others is not."""
    if any(ast.unparse(decorator) == "pytest.mark.full" for decorator in function.decorator_list):
        return True
    calls = [node for decorator in function.decorator_list for node in ast.walk(decorator) if isinstance(node, ast.Call)]
    cases = [node for node in calls if ast.unparse(node.func) == "pytest.param" and fault in ast.walk(node)]
    return any("pytest.mark.full" in map(ast.unparse, ast.walk(case)) for case in cases)


def _rows_of(path: Path) -> Iterator[Row]:
    text = path.read_text()
    if "pytest.mark.fault(" not in text:
        return
    tree, name = ast.parse(text), path.relative_to(ROOT).as_posix()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in _marks(node, "fault"):
                if isinstance(call, ast.Call):
                    yield Row(*_literals(call, f"{name}::{node.name}"), name, node.name, _is_full(node, call))


def rows() -> list[Row]:
    """Every row, in the order of the sections. ValueError: a marker that is no row."""
    found = [row for path in sorted((ROOT / "tests").rglob("test_*.py")) for row in _rows_of(path)]
    order = list(SECTIONS)
    return sorted(found, key=lambda row: (order.index(row.section), row.path))


def table() -> str:
    """The rows as Markdown, a table a section."""
    lines: list[str] = []
    section = ""
    for row in rows():
        if row.section != section:
            section = row.section
            lines += ["", f"## {section}", "", "| what breaks | ends in | what is kept | test |", "|---|---|---|---|"]
        test = f"[`{row.test.removeprefix('test_')}`](../{row.path})" + (" (full)" if row.full else "")
        lines.append(f"| {row.breaks} | {row.ends} | {row.keeps} | {test} |")
    return "\n".join(lines).strip()


def page(text: str) -> str:
    """docs/reliability.md with the present rows. ValueError: a page without the two marks."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{PAGE.relative_to(ROOT)}: expected the lines {START} and {END}")
    return f"{before}{START}\n\n{table()}\n\n{END}{after}"


class Outcomes:
    """Collects how each test of a row ended and prints the table at the end of the run."""

    WORST = ("failed", "skipped", "passed")

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = str(report.outcome)
        if outcome == "rerun" or (report.when != "call" and outcome == "passed"):
            return
        if report.nodeid not in self.seen or self.seen[report.nodeid] != "failed":
            self.seen[report.nodeid] = outcome

    def of(self, row: Row) -> str:
        ended = {outcome for nodeid, outcome in self.seen.items() if row.matches(nodeid)}
        return next((outcome for outcome in self.WORST if outcome in ended), "not run")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        everything = rows()
        counts: dict[str, int] = {}
        section = ""
        for row in everything:
            if row.section != section:
                section = row.section
                terminalreporter.write_sep("-", section)
            outcome = self.of(row)
            counts[outcome] = counts.get(outcome, 0) + 1
            terminalreporter.write_line(f"{outcome:8} {row.breaks} → {row.ends}; kept: {row.keeps}")
        terminalreporter.write_line(f"{len(everything)} rows: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
        if counts.get("not run"):
            terminalreporter.write_line("not run: rows of tests/cluster need `KUBECONFIG=… make test-faults`")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcomes(), "fault outcomes")


def main() -> None:
    parser = argparse.ArgumentParser(description="docs/reliability.md from the tests' markers")
    parser.add_argument("--write", action="store_true", help="write the page; without it, compare")
    text = PAGE.read_text()
    made = page(text)
    if parser.parse_args().write:
        PAGE.write_text(made)
    elif made != text:
        sys.exit("docs/reliability.md differs from the tests' markers: python -m tests.fault_table --write")


if __name__ == "__main__":
    main()
