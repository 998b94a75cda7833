"""The measurement of pages reaches every address of the app on its own generated archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "perf" / "pages_scale.py"


@pytest.mark.full
def test_every_page_of_a_generated_fleet_answers() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--fleet", "4x1"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {"/promises", "/spend", "/availability", "/acceptance", "/providers/provider-0000/promises"} <= {
        line.split()[0] for line in done.stdout.splitlines() if line.startswith("/")
    }
