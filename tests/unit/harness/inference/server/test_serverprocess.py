"""The highest memory of a server's processes, of ones whose appetite is known."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from plumbline.harness.inference.server.process import ServerProcess

MIB = 2**20
EATER = """
import sys, time
from pathlib import Path
for k in range(2):
    while not Path(f"{sys.argv[1]}/eat{k}").exists():
        time.sleep(0.01)
    held = b"x" * (96 * 2**20)
    del held
    Path(f"{sys.argv[1]}/ate{k}").touch()
time.sleep(300)
"""


def meal(folder: Path, k: int) -> None:
    (folder / f"eat{k}").touch()
    until = time.monotonic() + 60
    while not (folder / f"ate{k}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_peak_is_seen_though_it_is_over_and_is_forgotten_when_told(tmp_path: Path) -> None:
    server = ServerProcess()
    try:
        server.start([sys.executable, "-c", EATER, str(tmp_path)], {}, tmp_path / "log")
        server.refresh_children()
        if not server.reset_peak():
            pytest.skip("this kernel cannot forget a peak")
        meal(tmp_path, 0)
        peak = server.peak_resident_bytes()
        assert peak is not None and peak > 96 * MIB
        assert server.resident_bytes() < peak - 64 * MIB
        assert server.reset_peak()
        assert (server.peak_resident_bytes() or 0) < peak - 64 * MIB
        meal(tmp_path, 1)
        assert (server.peak_resident_bytes() or 0) > 96 * MIB
        server.kill()
        assert server.peak_resident_bytes() is None and not server.reset_peak()
    finally:
        server.close()
    assert server.peak_resident_bytes() is None and not server.reset_peak(), "nothing was noted: there is nothing to be seen"
