"""Which cores the client has and which the server: apart where there are enough of them, so that neither waits for the other's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_APART_FROM = 4
_CLIENT_SHARE = 8
"""One core in so many is the client's, and never less than one."""


@dataclass(frozen=True)
class Cores:
    """Cores of each side; None: it may run on all of them. `server_count`: how many the server can count on. `pool`: what servers that are
    kept apart from each other have between them; None: nothing is theirs alone."""

    client: tuple[int, ...] | None
    server: tuple[int, ...] | None
    server_count: int
    told: str
    pool: tuple[int, ...] | None = None

    def each(self, replicas: int) -> list[tuple[int, ...]] | None:
        """Distinct cores for each of several servers, as many for one as for the other; None where there are not enough for that."""
        share = len(self.pool or ()) // replicas
        return [tuple((self.pool or ())[k * share : (k + 1) * share]) for k in range(replicas)] if share else None


def divided(usable: Sequence[int], promised: int, claimed: int = 0) -> Cores:
    """How the trial's cores are divided: the last ones to the client, if the trial has at least four to itself and the servers, which need
    `claimed` of them, have enough without.

    `promised` below the number of usable cores is a limit on time, not on cores: those belong to everybody on the node, and being kept to one of
    them would be worse than none.
    """
    n = len(usable)
    if promised < n:
        return Cores(None, None, promised, f"shared: {promised} cores' worth of time on {n} cores of the node")
    client = tuple(usable[-max(1, n // _CLIENT_SHARE) :])
    server = tuple(usable[: n - len(client)])
    if n < _APART_FROM or len(server) < claimed:
        return Cores(None, None, n, f"shared: {n} cores are too few to divide", tuple(usable))
    return Cores(client, server, len(server), "apart", server)
