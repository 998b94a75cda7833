"""`python -m plumbline.harness` as a launcher starts it, with a real training workload and real probes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial
from tests.integration.test_training import all_end

from plumbline.harness.launcher_protocol import parse_progress
from plumbline.results import ResultStore
from plumbline.results.evidence_files import damaged_files


def started(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "plumbline.harness", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search_path("include"), "PLUMBLINE_HOME": str(home)},
    )


@pytest.mark.full
def test_sigterm_in_the_middle_of_training_leaves_a_document_and_nothing_else(tmp_path):
    trial = a_trial("training")
    (tmp_path / "trial.json").write_text(trial.model_dump_json())
    results = (tmp_path / "results").as_uri()
    process = started(tmp_path / "home", "run", "--trial", str(tmp_path / "trial.json"), "--out", results)
    assert process.stdout is not None
    for line in process.stdout:
        progress = parse_progress(line)
        if progress is not None and progress.phase in ("warmup", "steady"):
            break
    children = psutil.Process(process.pid).children(recursive=True)
    assert children  # the training process
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "SIGTERM" in errors.splitlines()[-1]
    assert all_end(children)
    store = ResultStore(results)
    document = store.document(store.folder(trial))
    assert document.validity.failure_class == "interrupted"
    assert document.value("matmul_tflops", phase="environment") is not None
    assert damaged_files(store, document) == []
    assert list((tmp_path / "home" / "work").iterdir()) == []


def test_probe_prints_the_environment_and_the_hardware(tmp_path):
    done = started(tmp_path / "home", "probe")
    output, _ = done.communicate(timeout=240)
    seen = json.loads(output)
    assert seen["facts"]["cpu.usable"] == len(os.sched_getaffinity(0))
    of_torch = ["matmul_tflops", "matmul_tflops_fp32", "matmul_tflops_bf16"]
    of_disk = ["disk_write_bandwidth", "disk_read_bandwidth", "dataset_read_bandwidth"]
    measured = [row for row in seen["probes"] if row["value"] is not None or "read" in row["metric"]]
    assert [row["metric"] for row in measured] == [*of_torch, "memory_bandwidth", *of_disk]
    absent = {row["metric"] for row in seen["probes"] if row not in measured}
    assert "matmul_tflops_fp8" in absent and all(row["reason"] for row in seen["probes"] if row["metric"] in absent)
    # What was written just now is read from the disk only where the system can be made to forget it.
    assert all((row["value"] is None) == (row["n"] == 0) for row in seen["probes"])
    assert all(row["value"] > 0 for row in measured if "read" not in row["metric"])
    assert {row["phase"] for row in seen["probes"]} == {"environment"}
