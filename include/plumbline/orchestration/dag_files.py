"""Which DAG files cannot be parsed, judged as Airflow's DAG processor does, in a process of its own: `python -m plumbline.orchestration.dag_files`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_LIMIT_S = 300
_DATABASE = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")


def unreadable_files(bundle: Path) -> dict[str, str]:
    """File, relative to the bundle, → why it cannot be parsed. RuntimeError if the files cannot be parsed at all."""
    # A task's own environment names no database that can be opened; parsing needs none.
    env = {k: v for k, v in os.environ.items() if not k.startswith(_DATABASE)} | {_DATABASE[0]: "sqlite://"}
    line = [sys.executable, "-m", "plumbline.orchestration.dag_files", str(bundle)]
    try:
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the DAG files in {bundle} were not parsed within {_LIMIT_S} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"the DAG files in {bundle} could not be parsed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(bundle: str) -> None:
    """Print {file: error} as one line of JSON."""
    from airflow.dag_processing.dagbag import BundleDagBag

    bag = BundleDagBag(dag_folder=bundle, bundle_path=Path(bundle), bundle_name="repository")
    sys.stdout.write(json.dumps({str(file): str(error) for file, error in bag.import_errors.items()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
