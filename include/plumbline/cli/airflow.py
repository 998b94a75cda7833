"""`plumbline airflow …`: Airflow's own command line, on the Airflow that this installation uses."""

from __future__ import annotations

import os
import sys

import typer

from plumbline.cli.output import FAILED, fail

ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Everything after the command's name, --help included, is Airflow's."""


def airflow(words: typer.Context) -> None:
    """Airflow's own commands, such as `connections import`, on the Airflow that this installation uses."""
    from plumbline.orchestration.connections import airflow_environment, prepare

    try:
        prepare()
    except RuntimeError as error:
        fail(str(error), FAILED)
    # In place of this process: its signals, its terminal and its exit status are Airflow's.
    os.execve(sys.executable, [sys.executable, "-m", "airflow", *words.args], airflow_environment(os.environ))
