"""A server that several processes run together: `gang_engine.py --nnodes N --node-rank R --leader HOST:PORT --port P --model M --name NAME`.

Rank 0 is tests.fakes.engine_server, ready once every other rank has joined it. A rank that loses another one ends, as engines do."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.engine_server import EngineServer
from tests.fakes.openai_server import Plan

LOST = 4
_RETRY_S = 0.05


class Leader(EngineServer):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(Plan(first_s=0.005, gap_s=0.001), options.name, options.model, 0.0)
        self._missing, self.lost = set(range(1, options.nnodes)), asyncio.Event()

    def _get(self, writer: asyncio.StreamWriter, path: str) -> bool:
        if path == "/health" and self._missing:
            return self._plain(writer, 503, "")
        return super()._get(writer, path)

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = int(await reader.readline())
        self._missing.discard(rank)
        while await reader.readline():
            pass
        sys.stderr.write(f"error: lost rank {rank}\n")
        self.lost.set()


async def _lead(options: argparse.Namespace) -> int:
    leader, (host, port) = Leader(options), options.leader.split(":")
    await asyncio.start_server(leader.join, host, int(port))
    await asyncio.start_server(leader.serve, "127.0.0.1", options.port, backlog=1024)
    await leader.lost.wait()
    return LOST


async def _follow(options: argparse.Namespace) -> int:
    host, port = options.leader.split(":")
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
            break
        except OSError:
            await asyncio.sleep(_RETRY_S)
    writer.write(f"{options.node_rank}\n".encode())
    with contextlib.suppress(OSError):
        await reader.read()  # rank 0 sends nothing: this is its end
    sys.stderr.write("error: lost rank 0\n")
    return LOST


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nnodes", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--leader", required=True)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", required=True)
    parser.add_argument("--name", default="")
    given = parser.parse_args()
    sys.exit(asyncio.run(_lead(given) if given.node_rank == 0 else _follow(given)))
