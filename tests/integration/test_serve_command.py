"""`plumbline serve`: a model that can be driven as an endpoint, gone when it is told to go."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.test_inference_hosted import drive, endpoint_at, load_of


def command(home: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PLUMBLINE_HOME": str(home / "home"), "TMPDIR": str(home)}
    line = [sys.executable, "-m", "plumbline.cli", "serve", *arguments]
    return subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.full
def test_what_it_prints_can_be_declared_and_driven(tmp_path: Path) -> None:
    process = command(tmp_path, "inference/chat-tiny-cpu")
    try:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(2)]
        for line in printed:
            found = re.fullmatch(
                r"launcher: \{kind: endpoint, url: (\S+), protocol: (\w+), model: (\w+), server_process: same_machine\}\n", line
            )
            assert found is not None, line
            log = drive(endpoint_at(found[1], found[2], model_name=found[3]), load_of(5, rate=10))
            assert log.errors() == {}, log.first_error()
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("plumbline-serve-")] == []


def test_a_workload_that_is_not_there_is_named(tmp_path: Path) -> None:
    process = command(tmp_path, "gpt-tiny-cpu")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert '"gpt-tiny-cpu"' in said
