"""Start time of commands: `python perf/cli_start.py [--rounds N]`, beside `python -c pass` and `airflow version`.

The archive is new and empty. Prints the median wall time in seconds and as a multiple of an empty Python's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "airflow version": [str(BIN / "airflow"), "version"],
    "plumbline --help": [str(BIN / "plumbline"), "--help"],
    "plumbline check": [str(BIN / "plumbline"), "check"],
    "plumbline status": [str(BIN / "plumbline"), "status"],
    "plumbline findings": [str(BIN / "plumbline"), "findings"],
    "plumbline campaigns": [str(BIN / "plumbline"), "campaigns"],
}


def main() -> None:
    """Interleave the commands, so that other load affects all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PLUMBLINE_HOME": home, "AIRFLOW_HOME": f"{home}/airflow"}
        subprocess.run([str(BIN / "plumbline"), "archive", "migrate"], env=environment, check=True, stdout=subprocess.DEVNULL)
        for number in range(rounds + 1):
            for name, command in COMMANDS.items():
                began = time.perf_counter()
                subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                if number:  # the first round fills the disk cache
                    taken[name].append(time.perf_counter() - began)
    empty = statistics.median(taken["python -c pass"])
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"{name:22}{middle:8.2f} s{middle / empty:8.1f} x")


if __name__ == "__main__":
    main()
