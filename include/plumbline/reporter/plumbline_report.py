"""Reports a training script's steps to Plumbline. Anywhere else nothing happens, so that the calls may stay in.

    with step(tokens=8192) as done:
        done.loss = train(batch)

One file for Python 3.8 and newer, without dependencies: copy it, or take it from PYTHONPATH, where every trial has it. Reports are JSON lines,
written to the pipe or file that the variable PLUMBLINE_REPORT names, by file descriptor or path. Moments: monotonic ns."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Optional  # noqa: UP035

_state: Dict[str, Any] = {"fd": None, "next": 0, "wait": 0}  # noqa: UP006


class Step:
    """A step in work. Until it ends, `loss`, `tokens` and `samples` of the whole job, and `data_wait` in s, may be set."""

    def __init__(self, **values: Any) -> None:
        self.loss = self.tokens = self.samples = self.data_wait = None
        self.__dict__.update(values)


@contextmanager
def step(number: Optional[int] = None, **values: Any) -> Iterator[Step]:  # noqa: UP045
    """One step, numbered from 0 or from what `loaded` said; `values` as of Step. One that ends by an exception is not reported."""
    waited, _state["wait"] = _state["wait"], 0
    done, began = Step(**values), time.monotonic_ns() - waited
    if waited:
        done.data_wait = waited / 1e9
    yield done
    step_done(began, number, **vars(done))


def step_done(began: int, number: Optional[int] = None, ended: Optional[int] = None, **values: Any) -> None:  # noqa: UP045
    """What `step` reports, for loops that no `with` fits."""
    number = _state["next"] if number is None else number
    _state["next"] = number + 1
    _write("step", step=number, began=began, ended=ended or time.monotonic_ns(), **values)


def batches(loader: Iterable[Any]) -> Iterator[Any]:
    """The loader's batches; the time until each was there is the next step's data wait."""
    began = time.monotonic_ns()
    for batch in loader:
        _state["wait"] = time.monotonic_ns() - began
        yield batch
        began = time.monotonic_ns()


@contextmanager
def checkpoint(path: Any) -> Iterator[None]:
    """Around what saves a checkpoint after the last reported step; `path`: its file or folder."""
    began = time.monotonic_ns()
    yield
    checkpoint_saved(path, began)


def checkpoint_saved(path: Any, began: Optional[int] = None) -> None:  # noqa: UP045
    """A checkpoint is complete. Its duration is unknown without the moment when it began."""
    ended = time.monotonic_ns()
    if _opened() is not None:
        files = Path(path).rglob("*") if Path(path).is_dir() else [Path(path)]
        size = sum(file.stat().st_size for file in files if file.is_file())
        _write("checkpoint", step=_state["next"] - 1, began=began, ended=ended, path=os.fspath(path), bytes=size)


def loaded(step: int, began: Optional[int] = None) -> None:  # noqa: UP045
    """A checkpoint is loaded; `step`: the number of the step that comes next."""
    _state["next"] = step
    _write("loaded", step=step, began=began, ended=time.monotonic_ns())


def evaluated(**scores: Any) -> None:
    """Scores of an evaluation after the last reported step."""
    _write("evaluated", step=_state["next"] - 1, ended=time.monotonic_ns(), scores=scores)


def _write(event: str, **values: Any) -> None:
    fd = _opened()
    if fd is not None:
        fields = {name: value for name, value in values.items() if value is not None}
        line = json.dumps(dict(fields, event=event, rank=int(os.environ.get("RANK") or 0)), default=_plain) + "\n"
        try:
            os.write(fd, line.encode())  # one write, so that lines of several processes do not mix
        except OSError:
            _state["fd"] = False  # the reader is gone: the training goes on


def _opened() -> Optional[int]:  # noqa: UP045
    if _state["fd"] is None:
        _state["fd"], target = False, os.environ.get("PLUMBLINE_REPORT") or ""
        try:
            if target.isdigit():
                os.fstat(int(target))
                _state["fd"] = int(target)
            elif target:
                fd = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)  # a pipe without a reader does not wait
                os.set_blocking(fd, True)
                _state["fd"] = fd
        except OSError:
            _state["fd"] = False
    return None if _state["fd"] is False else _state["fd"]


def _plain(value: Any) -> Any:
    """Tensors and NumPy's numbers."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
