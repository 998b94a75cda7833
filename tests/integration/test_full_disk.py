"""A real disk, full at each step from a planned trial to its report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.filled_disk import ROOMS

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


@pytest.mark.full
@pytest.mark.fault(
    "the disk is full at any step from plan to report", ends="one sentence; retried", keeps="no half file; every trial recorded once"
)
def test_a_full_disk_at_each_step_leaves_no_half_file_and_loses_nothing(tmp_path: Path) -> None:
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not allow mounts in a namespace of its own")
    line = [*NAMESPACE, sys.executable, "-m", "tests.fakes.filled_disk", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(each) for each in done.stdout.splitlines() if each.startswith("{")]
    failures, end = said[:-1], said[-1]
    assert {"plan", "announce", "document", "collect", "record", "report"} <= {one["step"] for one in failures}
    assert [one for one in failures if one["sentence"] is None] == []
    assert [one for one in failures if one["left"]] == []
    assert end == {"done": len(ROOMS), "broken": []}
