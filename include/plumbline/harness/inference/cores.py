"""Which cores the client has and which the server: apart where there are enough of them, so that neither waits for the other's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_APART_FROM = 4
_CLIENT_SHARE = 8
"""One core in so many is the client's, and never less than one."""


@dataclass(frozen=True)
class Cores:
    """Cores of each side; None: it may run on all of them. `server_count`: how many the server can count on."""

    client: tuple[int, ...] | None
    server: tuple[int, ...] | None
    server_count: int
    told: str


def divided(usable: Sequence[int], promised: int) -> Cores:
    """How the trial's cores are divided: the last ones to the client, if the trial has at least four to itself.

    `promised` below the number of usable cores is a limit on time, not on cores: those belong to everybody on the node, and being kept to one of
    them would be worse than none.
    """
    n = len(usable)
    if promised < n:
        return Cores(None, None, promised, f"shared: {promised} cores' worth of time on {n} cores of the node")
    if n < _APART_FROM:
        return Cores(None, None, n, f"shared: {n} cores are too few to divide")
    client = tuple(usable[-max(1, n // _CLIENT_SHARE) :])
    server = tuple(usable[: n - len(client)])
    return Cores(client, server, len(server), "apart")
