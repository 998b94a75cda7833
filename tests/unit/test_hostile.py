"""What others hand over and is damaged, absurd or a bomb: one sentence each, from the product's own commands, and little memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import pytest
from tests.data.hostile import CASES, MOST_MIB, ROOT, Hostile, quick

_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^\s+File \"", re.MULTILINE)


QUICK = quick()


@cache
def run(whole: bool) -> tuple[dict[tuple[str, str], Any], float]:
    """Status, words and unexpected error of each case, or of each quick one, in one process of its own; MiB of its peak."""
    line = [sys.executable, "-m", "tests.data.hostile", "--json", *([] if whole else ["--quick"])]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *lines, (_, peak) = map(json.loads, done.stdout.splitlines())
    return {(kind, name): rest for kind, name, *rest in lines}, peak


@pytest.mark.fault("a file of others holds NaN, 1e300, year 9999, or is a bomb", ends="refused", keeps="one sentence; under 300 MiB")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{case.kind}: {case.name}", marks=() if case in QUICK else pytest.mark.full) for case in CASES],
)
def test_each_is_one_sentence_with_what_was_expected(case: Hostile) -> None:
    found, _ = run(case not in QUICK)
    status, said, unexpected = found[case.kind, case.name]
    assert unexpected == "" and _TRACEBACK.search(said) is None
    assert re.search(case.says, said) is not None, said[-500:]
    accepted = case.says.startswith("taken") or case.kind == "published table"  # whose other rows are imported
    assert (status == 0) == accepted


def test_the_collection_takes_little_memory_and_is_whole() -> None:
    _, peak = run(False)
    assert peak < MOST_MIB
    assert len(CASES) >= 50 and len({(case.kind, case.name) for case in CASES}) == len(CASES)
    kinds = Counter(case.kind for case in CASES)
    assert min(kinds.values()) >= 2 and {"script report", "invoice", "access log", "TensorBoard", "prices"} <= set(kinds)
