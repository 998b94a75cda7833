"""Polls of all jobs of a provider by one question, however many triggers of a process wait for one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from plumbline.declarations.providers.batch import BatchLauncher
from plumbline.launch.batch.attempt import place_of
from plumbline.launch.batch.place import View

_GATHER_S = 0.3
"""Seconds in which questions become one."""
_questions: dict[tuple[int, str], _Question] = {}


class _Question:
    def __init__(self, launcher: BatchLauncher) -> None:
        self._launcher = launcher
        self._offsets: dict[str, int] = {}
        self._answer: asyncio.Task[dict[str, View]] | None = None

    async def ask(self, name: str, offset: int, over: Any) -> View:
        self._offsets[name] = offset
        if self._answer is None:
            self._answer = asyncio.ensure_future(self._gather(over))
        return (await asyncio.shield(self._answer))[name]

    async def _gather(self, over: Any) -> dict[str, View]:
        await asyncio.sleep(_GATHER_S)
        over()  # whoever asks from now on makes a question of its own
        return await place_of(self._launcher).look(dict(self._offsets))


async def look(launcher: BatchLauncher, name: str, offset: int) -> View:
    """What is seen of one launch; asked together with the others of its provider. As `JobPlace.look`."""
    key = (id(asyncio.get_running_loop()), launcher.model_dump_json())
    question = _questions.setdefault(key, _Question(launcher))
    return await question.ask(name, offset, lambda: _questions.pop(key, None))


def until_next(poll_s: float) -> float:
    """Seconds to the next poll: at the same moments for all, so that they are one question."""
    return poll_s - time.time() % poll_s
