"""Plumbline's DAGs as factories, one module a DAG file. A DAG file calls `build` and holds nothing else, so that it goes into any Airflow."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from plumbline.declarations import installation_paths
from plumbline.declarations.dag_ids import read_names

NAMES = tuple(sorted(file.stem for file in Path(__file__).parent.glob("[a-z]*.py")))
"""The names of all DAG files."""


def build(name: str, written_for: str | None = None) -> list[Any]:
    """The DAGs of a DAG file, which Airflow takes as they are made.

    `written_for`: the version of Plumbline whose `plumbline airflow init` wrote the file. ImportError if another release is installed, and
    ValueError if the declared prefix of the DAGs cannot be read: under other ids they would run a second time.
    """
    installed = installed_version()
    if written_for is not None and installed is not None and _release(written_for) != _release(installed):
        raise ImportError(
            f"this DAG file was written by plumbline {written_for} and plumbline {installed} is installed; "
            "write the DAG files again with `plumbline airflow init`, or install the version that wrote them"
        )
    _, problem = read_names(installation_paths().config)
    if problem:
        raise ValueError(problem)
    dags: list[Any] = import_module(f"{__name__}.{name}").build()
    return dags


def installed_version() -> str | None:
    """None where the sources are on the path and nothing is installed."""
    try:
        return version("plumbline")
    except PackageNotFoundError:
        return None


def _release(of: str) -> tuple[str, ...]:
    """The part of a version within which DAG files stay as they are."""
    return tuple(of.split(".")[:2])
