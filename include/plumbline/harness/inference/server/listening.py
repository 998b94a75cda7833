"""Cores of client and server, also of a server on this machine that the trial did not start: find its processes, keep both apart."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import urlsplit

import psutil

from plumbline.declarations import EndpointLauncher
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.environment.cpu import allotted_cores, usable_cores
from plumbline.harness.measurement import TrialFailed

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
        """Equally many distinct cores for each of several servers; None if there are too few."""
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


_DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}


@dataclass(frozen=True)
class ListeningServer:
    """The server that listens on a port of this machine: the processes `roots`, each with all that it started."""

    roots: tuple[int, ...]

    def processes(self) -> list[psutil.Process]:
        processes = []
        for pid in self.roots:
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(pid)
                processes += [root, *root.children(recursive=True)]
        return processes

    def threads(self) -> list[int]:
        threads = []
        for process in self.processes():
            with suppress(OSError):
                threads += [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]  # noqa: PTH208 - names alone
        return threads

    @property
    def cores(self) -> tuple[int, ...]:
        """Cores on which it may run."""
        return tuple(sorted({cpu for thread in self.threads() for cpu in _affinity(thread)}))

    @property
    def name(self) -> str:
        """The name of its first process, without arguments, which can hold keys."""
        with suppress(psutil.NoSuchProcess, IndexError):
            return str(psutil.Process(self.roots[0]).name())
        return "unknown"


def find_listening(port: int) -> ListeningServer | None:
    """Who listens on the port of a loopback address, or of all; None if no process does that this user may see."""
    listening = {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
        and connection.pid is not None
        and _reaches_loopback(connection.laddr.ip)
    }
    # A server's workers listen on the socket that their parent opened: the tree begins with the parent.
    roots = [pid for pid in sorted(listening) if not listening & {parent.pid for parent in _parents(pid)}]
    return ListeningServer(tuple(roots)) if roots else None


def _reaches_loopback(address: str) -> bool:
    ip = ip_address(address)
    return ip.is_loopback or ip.is_unspecified


def _parents(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).parents()
    except psutil.NoSuchProcess:
        return []


@contextmanager
def own_server(launcher: EndpointLauncher, watch: ContentionMonitor) -> Iterator[tuple[CoreSplit, ListeningServer] | None]:
    """The declared server on this machine while the block runs: its CPU time is the trial's own, and it has other cores than the client where
    there are enough. None where the declaration names no such server.

    Raises TrialFailed("bad_declaration") if no process that this user may see listens there."""
    if launcher.server_process is None:
        yield None
        return
    url = urlsplit(launcher.url)
    port = url.port or _DEFAULT_PORTS[url.scheme]
    server = find_listening(port)
    if server is None:
        raise TrialFailed(
            "bad_declaration",
            f"launcher.server_process is {launcher.server_process}, but no process that this user may see listens on port {port}; "
            "expected the server to run on this machine as the same user, or no server_process",
        )
    split = split_cores(usable_cores(), allotted_cores(), server.cores)
    for pid in server.roots:
        watch.include(pid, server.cores)
    with bound(server, split.server) as moved:
        yield split if moved else replace(split, server=None, client=None, description="shared: this user may not bind the server"), server


def split_cores(usable: Sequence[int], promised: int, server: Collection[int]) -> CoreSplit:
    """Cores of client and server. A server that was bound to some of the cores stays there, and the client takes the others."""
    others = tuple(cpu for cpu in usable if cpu not in server)
    if not others:
        return divide_cores(usable, promised)
    return CoreSplit(others, tuple(server), len(server), "apart: the server was bound before the trial")


@contextmanager
def bound(server: ListeningServer, cores: Sequence[int] | None) -> Iterator[bool]:
    """The server on these cores (None: as it is) while the block runs; whether that was allowed. A thread that is bound more closely, as those
    of a matrix product are, stays where it is: moving it would slow the server down."""
    before: dict[int, set[int]] = {}
    widest = len(server.cores)
    allowed = True
    try:
        for thread in server.threads() if cores else ():
            affinity = _affinity(thread)
            if len(affinity) == widest and not affinity <= set(cores or ()):
                try:
                    os.sched_setaffinity(thread, cores or ())
                except PermissionError:
                    allowed = False
                    break
                except ProcessLookupError:
                    continue
                before[thread] = affinity
        yield allowed
    finally:
        started = {thread: next(iter(before.values())) for thread in server.threads()} if before else {}
        for thread, cpus in {**started, **before}.items():
            # What was started meanwhile inherited the cores; what is bound more closely stays.
            if _affinity(thread) == set(cores or ()):
                with suppress(ProcessLookupError, PermissionError):
                    os.sched_setaffinity(thread, cpus)


def _affinity(thread: int) -> set[int]:
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:
        return set()
