"""Stores what a release leaves with its users, by its own commands: `python -m tests.fakes.stored_release 0.1` writes tests/data/stored_0_1/.

An archive with two simulated campaigns and a finding, the declarations that they were measured by, and an evidence pack. A stored release is never written again
once it was released: every later version reads it (`tests/unit/test_stored_releases.py`).
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.fakes.simulated_campaigns import config

DATA = Path(__file__).resolve().parents[1] / "data"
SLOWER = {"kind": "step", "since": "2026-10-01", "worse": "25%"}


def folder_of(version: str) -> Path:
    """The folder of a release, such as 0.1."""
    return DATA / f"stored_{version.replace('.', '_')}"


def store(version: str, into: Path) -> None:
    """Write the release's archive (SQL text, gzip), declarations, evidence pack and public key."""
    with tempfile.TemporaryDirectory(prefix="plumbline-release-") as made:
        home, declared = Path(made) / "home", config(Path(made), [SLOWER])
        env = {**os.environ, "PLUMBLINE_HOME": str(home), "PLUMBLINE_CONFIG": str(declared)}

        def plumbline(*words: str) -> str:
            command = [sys.executable, "-m", "plumbline.cli", *words, "--json"]
            return subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True, cwd=made).stdout

        plumbline("rehearse", "--campaigns", "2026-09..2026-10", "--home", str(home), "--workload", "gpt-tiny-cpu")
        into.mkdir(parents=True)
        plumbline("evidence", "export", "2026-10", str(into / "pack.zip"), "--provider", "sim")
        shutil.copytree(declared, into / "config")
        (into / "key.txt").write_text(json.loads(plumbline("evidence", "key"))["keys"][0] + "\n")
        with closing(sqlite3.connect(home / "archive.db")) as archive:
            text = "\n".join(archive.iterdump()) + "\n"
        (into / "archive.sql.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    store(sys.argv[1], folder_of(sys.argv[1]))
