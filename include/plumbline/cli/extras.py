"""Which extra of the package brings what a command needs, where it is not installed: read from the package's own metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, NoReturn

from plumbline.cli.exit_status import UNUSABLE

NEEDS: dict[str, tuple[str, ...]] = {
    "accept": ("airflow",),
    "airflow": ("airflow",),
    "replay": ("harness", "server"),
    "rehearse": ("server",),
    "report": ("server",),
    "run": ("airflow", "harness"),
    "selfcheck": ("harness",),
    "serve": ("harness",),
    "trial": ("harness", "server"),
    "up": ("airflow",),
    "watch": ("server",),
}
"""Commands that begin only with all of these extras, so that none stops half-way. Another one asks for an extra when it comes to use it."""

OTHER_NAMES = {"airflow": "apache-airflow", "faiss": "faiss-cpu", "pynvml": "nvidia-ml-py"}
"""Modules whose distribution has another name than theirs."""

CHOSEN = {"torch": "PyTorch, in the build for this machine: pip install torch"}
"""Modules that no extra brings, because each machine has its own build."""


def needing(command: str, callback: Callable[..., Any]) -> Callable[..., Any]:
    """The callback of a command, which leaves with a sentence, before it begins, where an extra is missing that it needs."""
    if command not in NEEDS:
        return callback

    @wraps(callback)
    def checked(*args: Any, **options: Any) -> Any:
        if lacking := missing(command):
            leave(needed(command, lacking))
        return callback(*args, **options)

    return checked


def missing(command: str) -> list[str]:
    """The extras that a command needs and of which a requirement is not installed."""
    wanted = NEEDS.get(command, ())
    return [extra for extra in wanted if any(not _installed(name) for name, of in _requirements() if of == extra)]


def reason(command: str, error: ImportError) -> str | None:
    """What a command needs whose import failed; None where no extra brings the module, which is a fault of the code or the machine."""
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
    if not isinstance(cause, ModuleNotFoundError) or not cause.name:
        return None
    module = cause.name.partition(".")[0]
    if module in CHOSEN:
        return f"plumbline {command} needs {CHOSEN[module]}"
    wanted = _canonical(OTHER_NAMES.get(module, module))
    return next((needed(command, [extra]) for name, extra in _requirements() if name == wanted), None)


def needed(command: str, extras: Collection[str]) -> str:
    """The sentence about extras that are not installed."""
    package = f"plumbline[{','.join(sorted(extras))}]"
    return f'plumbline {command} needs {package}: pip install "{package}"'


def leave(sentence: str) -> NoReturn:
    """Print the sentence and exit: nothing ran."""
    from plumbline.cli.output import err

    err.print(sentence, markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(UNUSABLE)


def _requirements() -> Iterator[tuple[str, str]]:
    """Name and extra of each requirement that an extra of the installed package has on this machine; extras within extras are not followed."""
    from packaging.requirements import Requirement

    try:
        lines = requires("plumbline") or ()
    except PackageNotFoundError:  # the sources, on the search path of an image that has its own lock
        return
    for line in lines:
        requirement = Requirement(line)
        extra = re.search(r'extra == "([^"]+)"', str(requirement.marker))
        if (
            extra
            and _canonical(requirement.name) != "plumbline"
            and requirement.marker
            and requirement.marker.evaluate({"extra": extra[1]})
        ):
            yield _canonical(requirement.name), extra[1]


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
