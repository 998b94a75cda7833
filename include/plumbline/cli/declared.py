"""Declarations that commands name: read or refused with a sentence, and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.cli.output import clear_errors, completed, fail
from plumbline.declarations import DeclarationError, Declarations, InferenceWorkload, Provider, load
from plumbline.metrics.formatting import unknown_name

if TYPE_CHECKING:
    from plumbline.archive import Archive

Campaign = Annotated[
    str | None,
    typer.Argument(
        help="campaign id, or how it begins; the newest monthly one if left out, else the newest", callback=completed("campaign")
    ),
]


def load_declared() -> Declarations:
    """The installation's declarations; exit code 2 with every problem."""
    with clear_errors(DeclarationError):
        return load()


def declared_providers(declared: Declarations, names: Iterable[str]) -> list[Provider]:
    """The providers of these names, each once; exit code 2 for one that is not declared."""
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in declared.providers:
            fail(unknown_name("provider", name, declared.providers))
    return [declared.providers[name] for name in chosen]


def known_provider(name: str, declared: Declarations | None, archive: Archive) -> None:
    """Exit code 2 for a provider that is neither declared nor in the archive. `declared`: None where they cannot be read."""
    known = {*(declared.providers if declared is not None else ()), *archive.provider_names()}
    if name not in known:
        fail(unknown_name("provider", name, known))


def inference_workload(name: str) -> InferenceWorkload:
    """The inference workload of this name, with or without `inference/` before it; exit code 2 if it is not declared."""
    inference = load_declared().inference_workloads
    if (found := inference.get(name.removeprefix("inference/"))) is None:
        fail(unknown_name("inference workload", name, inference))
    return found


def as_day(option: str, given: str | None) -> date | None:
    """The day that an option names; exit code 2 if it names none."""
    try:
        return None if given is None else date.fromisoformat(given)
    except ValueError:
        fail(f'{option} "{given}" is not a day; expected one such as 2026-11-21')
