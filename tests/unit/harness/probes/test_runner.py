"""The runner with workers that report, hang and die: real processes that need no torch."""

from __future__ import annotations

import sys

import psutil
import pytest

from plumbline.harness import probes

WORKER = """
import json, os, subprocess, sys, time
for part in sys.argv[sys.argv.index("--parts") + 1:]:
    if part == "hangs":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)
    if part == "dies":
        print("noise\\nlibcuda.so: wrong driver", file=sys.stderr)
        os._exit(7)
    answer = {"failed": "RuntimeError: " + "x" * 999} if part == "fails" else {"rows": [
        {"phase": "environment", "metric": "memory_bandwidth", "statistic": "max", "value": float(os.getpid()), "unit": "bytes/s",
         "n": 1, "direction": "higher_is_better"}]}
    print(json.dumps(answer), flush=True)
    if part == "fresh":
        break
"""


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "command", lambda: [sys.executable, "-c", WORKER])


def of(*parts: str, limits_s: dict[str, float] | None = None, limit_s: float = 60.0) -> dict[str, tuple[float | None, str | None]]:
    metrics = {part: (f"{BAD.get(part, 'memory')}_bandwidth",) for part in parts}
    rows = probes.run_parts(metrics, [], limits_s or {}, limit_s)
    assert len(rows) == len(parts)
    return {part: (row.value, row.reason) for part, row in zip(parts, rows, strict=True)}


BAD = {"hangs": "disk_write", "dies": "disk_read", "fails": "dataset_read"}


def test_one_process_measures_all_of_them() -> None:
    found = of("a", "b")
    assert found["a"] == found["b"] and found["a"][0] is not None


def test_a_process_that_dies_costs_the_part_that_it_was_at() -> None:
    found = of("a", "dies", "b")
    value, reason = found["dies"]
    assert value is None and "code 7" in str(reason) and str(reason).endswith("libcuda.so: wrong driver")
    assert None not in (found["a"][0], found["b"][0]) and found["a"] != found["b"]


@pytest.mark.fault("a hardware probe hangs", ends="the probe's reason", keeps="the trial; no process is left")
def test_a_part_that_hangs_is_ended_with_all_that_it_started() -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    found = of("a", "hangs", "b", limits_s={"hangs": 0.3})
    value, reason = found["hangs"]
    assert value is None and "0.3 s" in str(reason)
    assert None not in (found["a"][0], found["b"][0])
    assert {p.pid for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE} <= before


def test_a_part_that_fails_says_why_within_bounds_and_the_process_goes_on() -> None:
    found = of("a", "fails", "b")
    value, reason = found["fails"]
    assert value is None and reason is not None and reason.startswith("RuntimeError: xxx") and len(reason) == 300
    assert found["a"] == found["b"]


def test_a_worker_may_end_after_a_part_and_another_one_goes_on() -> None:
    found = of("fresh", "b")
    assert found["fresh"] != found["b"] and None not in (found["fresh"][0], found["b"][0])


def test_what_the_limit_of_all_left_no_time_for_is_named() -> None:
    found = of("a", "b", limit_s=0.0)
    assert list(found) == ["a", "b"] and all(value is None and " 0 s" in str(reason) for value, reason in found.values())
