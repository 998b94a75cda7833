"""Between nodes: TCP from one to another, and collectives over all ranks: bandwidth by size, and the network that NCCL chose.

Each node starts its `RankProcesses`; node 0 follows them with `measure_collectives`. A failed collective, a lost node or an exceeded limit
costs rows, which carry the reason, and never the trial."""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plumbline.harness import engine_python
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.process_tree import describe_exit
from plumbline.results import Curve, MetricRow, Point, Scalar, metric_curve, metric_row
from plumbline.results.bounded_json import format_size

_HEADER = struct.Struct("!cQ")
_ECHO_BYTES, _MOST_ECHOED = 8, 1 << 16
_TRIPS, _WARMUP_TRIPS = 200, 10
_PIECE, _CHUNK = 1 << 24, 1 << 18
_SECONDS, _PATIENCE_S = 0.5, 10.0


class PeerServer:
    """A context manager that answers on its own `port`, on all interfaces, one connection at a time."""

    def __init__(self) -> None:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, dualstack_ipv6=both)
        self.port: int = self._listener.getsockname()[1]
        self._current: socket.socket | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="peer-probe", daemon=True)

    def __enter__(self) -> PeerServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for open_socket in (self._listener, self._current):
            if open_socket is not None:
                with suppress(OSError):  # its other end may have hung up already
                    open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                self._current, _ = self._listener.accept()
            except OSError:
                return  # closed: no further request comes
            with self._current, suppress(OSError):  # who asks may go away at any time
                if self._closing.is_set():
                    return
                self._current.settimeout(_PATIENCE_S)
                self._current.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _serve_connection(self._current)


def peer_rows(peers: Iterable[tuple[str, int]]) -> list[MetricRow]:
    """`peer_round_trip_time` (median of 200) and `peer_bandwidth` (best) to the slowest of the (host, port) pairs, which a job waits for; absent
    if one cannot be reached. Empty without peers."""
    peers_measured = [_measure_peer(host, port) for host, port in peers]
    if not peers_measured:
        return []
    reached = [one for one in peers_measured if one is not None]
    if len(reached) < len(peers_measured):
        return [metric_row(name, None, 0, phase="environment") for name in ("peer_round_trip_time", "peer_bandwidth")]
    rate, pieces = min((rate, n) for _, rate, n in reached)
    return [
        metric_row("peer_round_trip_time", max(trip for trip, _, _ in reached), _TRIPS, phase="environment"),
        metric_row("peer_bandwidth", rate, pieces, phase="environment"),
    ]


def _measure_peer(host: str, port: int) -> tuple[float, float, int] | None:
    """Median round trip in seconds, best rate in bytes/s, number of pieces; None without an answer."""
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            trips = [_time_round_trip(connection) for _ in range(_WARMUP_TRIPS + _TRIPS)][_WARMUP_TRIPS:]
            piece, times = bytes(_PIECE), [0.0]
            while sum(times) < _SECONDS:
                began = time.perf_counter()
                connection.sendall(_HEADER.pack(b"t", len(piece)))
                connection.sendall(piece)
                _receive(connection, 1)
                times.append(time.perf_counter() - began)
            return statistics.median(trips), _PIECE / min(times[1:]), len(times) - 1
    except OSError:
        return None


def _time_round_trip(connection: socket.socket) -> float:
    began = time.perf_counter()
    connection.sendall(_HEADER.pack(b"e", _ECHO_BYTES) + bytes(_ECHO_BYTES))
    _receive(connection, _ECHO_BYTES)
    return time.perf_counter() - began


def _serve_connection(connection: socket.socket) -> None:
    while True:
        command, size = _HEADER.unpack(_receive(connection, _HEADER.size, keep=True))
        if command == b"e" and size <= _MOST_ECHOED:
            connection.sendall(_receive(connection, size, keep=True))
        elif command == b"t":
            _receive(connection, size)
            connection.sendall(b"\0")
        else:
            return  # a peer of another protocol


def _receive(connection: socket.socket, size: int, *, keep: bool = False) -> bytes:
    """Exactly `size` bytes, returned if `keep`. ConnectionError at an early end."""
    received, buffer = bytearray(), bytearray(min(size, _CHUNK))
    while size > 0:
        n = connection.recv_into(buffer, min(size, len(buffer)))
        if n == 0:
            raise ConnectionError("the other end hung up")
        if keep:
            received += buffer[:n]
        size -= n
    return bytes(received)


COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")
_START_S = 60.0


@dataclass(frozen=True)
class InterNodeResult:
    rows: list[MetricRow] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class CollectiveSpec:
    """Common to the ranks of all nodes. `host`, `port`: the store through which they meet."""

    nodes: int
    processes: int
    device: str
    host: str
    port: int
    limit_s: float

    @property
    def world(self) -> int:
        return self.nodes * self.processes


class RankProcesses:
    """The probe's processes of one node, as a context."""

    def __init__(self, orders: CollectiveSpec, node: int, threads: int, folder: Path, variables: Mapping[str, str]) -> None:
        self.orders, self._node, self._threads, self._folder, self._variables = orders, node, threads, folder, variables
        self._processes: list[ChildProcess] = []
        self._stack = ExitStack()

    def __enter__(self) -> RankProcesses:
        with ExitStack() as stack:
            for local in range(self.orders.processes):
                self._processes.append(stack.enter_context(self._start(local)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, local: int) -> ChildProcess:
        rank = {"rank": self._node * self.orders.processes + local, "local_rank": local, "threads": self._threads}
        spec = {**asdict(self.orders), **rank, "world": self.orders.world}
        command = [engine_python.executable(), "-m", "plumbline.harness.probes.collectives", json.dumps(spec), str(os.getpid())]
        debug = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": str(self._path(local, "nccl"))}
        variables = {**engine_python.environment(), **self._variables, **debug}
        return ChildProcess(command, variables, output=self._path(local, "out"), errors=self._path(local, "err"))

    def _path(self, local: int, suffix: str) -> Path:
        return self._folder / f"inter-node-{self._node}-{local}.{suffix}"

    @property
    def done(self) -> bool:
        return all(process.poll() == 0 for process in self._processes)

    def failure(self) -> str | None:
        for local, process in enumerate(self._processes):
            if process.poll() not in (None, 0):
                errors = self._path(local, "err").read_text(errors="replace")
                return f"rank {self._node * self.orders.processes + local} {describe_exit(process.returncode, errors)}"
        return None

    def lines(self) -> list[dict[str, Any]]:
        path = self._path(0, "out")
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")] if path.exists() else []

    def transport(self) -> str | None:
        """The network that the node's ranks chose; None if unknown."""
        if self.orders.device != "cuda":
            return "gloo over TCP"
        return nccl_transport("\n".join(file.read_text(errors="replace") for file in sorted(self._folder.glob("inter-node-*.nccl"))))


def measure_collectives(ranks: RankProcesses, others: Callable[[], str | None]) -> InterNodeResult:
    """Run node 0's ranks to their end and build the rows. `others` waits a moment and returns why another node cannot take part."""
    deadline = time.monotonic() + ranks.orders.limit_s + _START_S
    why: str | None = None
    lines: list[dict[str, Any]] = []
    chosen: str | None = None
    try:
        with ranks:
            while not ranks.done and why is None:
                why = ranks.failure() or others()
                if why is None and time.monotonic() > deadline:
                    why = f"took longer than {ranks.orders.limit_s:g} s"
            lines, chosen = ranks.lines(), ranks.transport()
    except OSError as error:
        why = f"{type(error).__name__}: {error}"
    return _build_result(ranks.orders, lines, chosen, why)


def _build_result(orders: CollectiveSpec, lines: list[dict[str, Any]], chosen: str | None, why: str | None) -> InterNodeResult:
    result = InterNodeResult(facts={"network.inter_node_transport": chosen} if chosen else {})
    for name in COLLECTIVES:
        mine = [each for each in lines if each["collective"] == name]
        sizes = [each for each in mine if "bytes" in each]
        failed = next((each["failed"] for each in mine if "failed" in each), None)
        reason = failed or why or "no size fitted into the memory or the limit"
        best = max(sizes, key=lambda each: each["bytes"] / each["seconds"], default=None)
        method = None
        if sizes:
            span = f"{format_size(sizes[0]['bytes'])} to {format_size(sizes[-1]['bytes'])}"
            method = f"{orders.world} ranks on {orders.nodes} nodes, {chosen or 'unknown transport'}, {span}"
        algorithm = None if best is None else best["bytes"] / best["seconds"]
        n = 0 if best is None else int(best["n"])
        for kind, factor in (("bus", bus_factor(name, orders.world)), ("algorithm", 1.0)):
            value = None if algorithm is None else algorithm * factor
            metric = f"inter_node_{name}_{kind}_bandwidth"
            result.rows.append(metric_row(metric, value, n, phase="environment", reason=reason, method=method))
        if sizes:
            result.curves.append(_curve(name, sizes, orders.world))
    return result


def _curve(name: str, sizes: list[dict[str, Any]], world: int) -> Curve:
    points = (
        Point(at=float(each["bytes"]), value=each["bytes"] / each["seconds"] * bus_factor(name, world), n=int(each["n"])) for each in sizes
    )
    return metric_curve(f"inter_node_{name}_bus_bandwidth", "message_bytes", points, phase="environment")


def bus_factor(name: str, world: int) -> float:
    """Bus over algorithm bandwidth, as nccl-tests define them."""
    return (2 if name == "all_reduce" else 1) * (world - 1) / world


_CHANNEL = re.compile(r"\[(?:send|receive)\] via NET/(?P<net>[^\n]+?)/\d+(?P<direct>/GDRDMA)?")
_SELECTED = re.compile(r"NCCL INFO Using network (?P<net>[^\n]+)")


def nccl_transport(log: str) -> str | None:
    """The transport of NCCL, such as `NET/IB, GPUDirect RDMA`, `NET/AWS Libfabric` or `NET/Socket`; None if the log does not say.

    A channel between nodes, which also shows GPUDirect, counts before the network chosen at the start."""
    channels = {(match["net"], match["direct"] is not None) for match in _CHANNEL.finditer(log)}
    if channels:
        return "; ".join(f"NET/{net}{', GPUDirect RDMA' if direct else ''}" for net, direct in sorted(channels))
    chosen = sorted({match["net"].strip() for match in _SELECTED.finditer(log)})
    return "; ".join(f"NET/{net}" for net in chosen) or None
