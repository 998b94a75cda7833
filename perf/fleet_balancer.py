"""What a Kubernetes Service does before API servers: each connection goes to the next one that accepts it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

_CHUNK = 65536


class Balancer:
    """Listens on `port` of loopback, in a thread; `backends`: ports of loopback."""

    def __init__(self, backends: Sequence[int]) -> None:
        self.backends = tuple(backends)
        self._next = itertools.cycle(range(len(self.backends)))
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = int(self._socket.getsockname()[1])
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._begun.wait()

    def listens(self, number: int) -> bool:
        """Whether the backend accepts connections."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.backends[number]), timeout=5):
            return True
        return False

    def stop(self) -> None:
        """Close the socket and every connection."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connect, sock=self._socket)
        self._begun.set()
        await self._over.wait()
        server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self.backends:
            with suppress(OSError):
                away = await asyncio.open_connection("127.0.0.1", self.backends[next(self._next)])
                await asyncio.gather(_copy(reader, away[1]), _copy(away[0], writer))
                return
        writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        with suppress(OSError):
            writer.close()
