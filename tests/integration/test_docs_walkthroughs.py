"""Pages that begin with commands to try: the commands run as they are printed, in an empty installation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = ("cost-scenarios", "read-a-scorecard", "rehearse-with-simulation")


def first_block(page: str) -> str:
    found = re.search(r"```(?:sh|bash)\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.S)
    assert found is not None and "plumbline " in found[1]
    return found[1]


@pytest.mark.full
@pytest.mark.parametrize("page", SIMULATED)
def test_the_first_commands_of_a_page_run_as_printed(page: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLUMBLINE_")}
    environment |= {"PLUMBLINE_HOME": str(tmp_path / "var"), "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
    script = f"set -euo pipefail\n{first_block(page)}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout, done.stderr
