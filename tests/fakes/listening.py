"""A port that somebody else holds."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def somewhere() -> Iterator[int]:
    """The number of a loopback port on which somebody listens, and never answers, until the block ends."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield int(held.getsockname()[1])
