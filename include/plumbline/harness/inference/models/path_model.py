"""An engine that computes nothing: token after token as fast as they can be sent, so that what is measured is the path of the tokens."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from generation import Ending, Generation, Piece, Request  # type: ignore[import-not-found]


class TritonPythonModel(Generation):  # type: ignore[misc]
    async def start(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {"engine": "path", "engine_version": "none", "device": settings["device"]}

    async def generate(self, request: Request) -> AsyncIterator[Piece]:
        began = time.monotonic()
        for token in range(request.tokens - 1):
            yield Piece([token])
            await asyncio.sleep(0)  # all sequences take each step together, as engines do
        yield Piece([request.tokens - 1], "", Ending(0.0, 0.0, time.monotonic() - began, 0))

    async def stop(self) -> None:
        return
