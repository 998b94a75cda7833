"""Airflow's scheduler with our modules imported: it forks a process for each task, which then need not import them again.

`python -m plumbline.embedded.scheduler ARGUMENTS` is `airflow scheduler ARGUMENTS`. A campaign on this machine has about forty tasks one after the
other, of a second or two for imports each, and more where Great Expectations is among them.
"""

import sys
from importlib import import_module

PRELOADED = (
    "plumbline.airflow.tasks.benchmark",
    "plumbline.airflow.tasks.review",
    "plumbline.quality.data_docs",
    "plumbline.workflows.benchmark",
    "plumbline.workflows.decide",
    "plumbline.workflows.report",
    "plumbline.workflows.review",
)


def main() -> None:
    for name in PRELOADED:
        import_module(name)
    from airflow.__main__ import main as airflow

    sys.argv = ["airflow", "scheduler", *sys.argv[1:]]
    airflow()


if __name__ == "__main__":
    main()
