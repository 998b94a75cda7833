"""Which cores are the client's and which the server's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_APART_FROM = 4
_CLIENT_SHARE = 8
"""One core in this many is the client's, at least one."""


@dataclass(frozen=True)
class CoreSplit:
    """Cores of each side; None: all of them. `server_count`: cores that the server can count on. `pool`: cores of isolated servers together."""

    client: tuple[int, ...] | None
    server: tuple[int, ...] | None
    server_count: int
    description: str
    pool: tuple[int, ...] | None = None

    def each(self, replicas: int) -> list[tuple[int, ...]] | None:
        """As many distinct cores for each of several servers; None if there are too few."""
        share = len(self.pool or ()) // replicas
        return [tuple((self.pool or ())[k * share : (k + 1) * share]) for k in range(replicas)] if share else None


def divide_cores(usable: Sequence[int], promised: int, claimed: int = 0) -> CoreSplit:
    """Divide the trial's cores: the last ones go to the client, if the trial has at least four to itself and the servers keep `claimed`.

    `promised` below the number of usable cores is a limit on time: the cores are shared with the node, so binding would be worse."""
    n = len(usable)
    if promised < n:
        return CoreSplit(None, None, promised, f"shared: {promised} cores' worth of time on {n} cores of the node")
    client = tuple(usable[-max(1, n // _CLIENT_SHARE) :])
    server = tuple(usable[: n - len(client)])
    if n < _APART_FROM or len(server) < claimed:
        return CoreSplit(None, None, n, f"shared: {n} cores are too few to divide", tuple(usable))
    return CoreSplit(client, server, len(server), "apart", server)
