"""A program that this process starts and holds: it ends with its block, and nothing that it started is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import IO

from plumbline.harness import parent_guard
from plumbline.harness.process_tree import kill_tree

_GONE_S = 60.0
"""Until a killed process is gone: the kernel may have the memory of a GPU to give back first."""


class ChildProcess(subprocess.Popen[bytes]):
    """A running program; the end of the block, or `stop`, ends it and what is below it.

    `output`: a new file for its standard output, an open one, or as of Popen. `errors`: likewise; by default they go where the output goes.
    Its standard input closes when this process ends. `own_group`: signals to this process's group, such as an interrupt from the keyboard,
    do not reach it, and its group ends with it. `guarded`: the kernel ends it with the *thread* that starts it, however that ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        output: Path | IO[bytes] | int,
        errors: Path | IO[bytes] | int | None = subprocess.STDOUT,
        own_group: bool = False,
        guarded: bool = False,
        cpus: Collection[int] | None = None,
    ) -> None:
        self._own_group = own_group
        guard = [sys.executable, "-I", "-S", parent_guard.__file__, str(os.getpid())] if guarded else []
        with ExitStack() as stack:
            if cpus:
                stack.enter_context(pinned_to(cpus))
            out, err = (stack.enter_context(each.open("wb")) if isinstance(each, Path) else each for each in (output, errors))
            super().__init__(
                [*guard, *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env=dict(environment),
                start_new_session=own_group,
            )

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, grace_s: float = 0.0) -> None:
        """SIGTERM, and after `grace_s` SIGKILL, without a grace at once; returns when it is gone. Its pipes are closed. Safe to call twice."""
        try:
            if grace_s > 0 and self.poll() is None:
                self.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.wait(grace_s)
        finally:  # also after an interrupt of the wait
            if self.poll() is None:
                kill_tree(self.pid)
            self.end_by_force()
            for pipe in (self.stdin, self.stdout, self.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def end_by_force(self) -> None:
        """SIGKILL at once to it and its group; returns when it is gone itself. TimeoutExpired if it outlives that."""
        if self._own_group:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        else:
            self.kill()
        self.wait(_GONE_S)


def read_available(pipe: int, take: Callable[[bytes], None], most: int | None = None) -> bool:
    """Whether more may come from a pipe that does not block. `most`: chunks to take, so that endless output does not keep from the rest."""
    for _ in repeat(None) if most is None else range(most):
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        take(data)
    return True


@contextmanager
def pinned_to(cpus: Collection[int]) -> Iterator[None]:
    """This thread, and what it starts, runs on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
