"""The nodes of a local trial: one harness for each, on its own cores, which meet on loopback.

Run by path (`python -I -S loopback_nodes.py …`) below the reaper, which ends whatever is left. Exits with the status or signal of node 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time

_END_WITHIN_S = 60.0
"""Seconds that the other nodes have to end by themselves after node 0."""


def cpu_shares(cpus: list[int], nodes: int) -> list[set[int]]:
    """An equal part of the cores for each node; remaining cores stay unused, so that nodes are alike."""
    each = len(cpus) // nodes
    return [set(cpus[node * each : (node + 1) * each]) for node in range(nodes)]


def _spawn(command: list[str], node: int, cpus: set[int], rendezvous: str) -> int:
    variables = {
        **os.environ,
        "PLUMBLINE_NODE_RANK": str(node),
        "PLUMBLINE_RENDEZVOUS": rendezvous,
        "PLUMBLINE_POD_NAME": f"loopback-{node}",
    }
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        return os.posix_spawnp(command[0], command, variables, setsigmask=(), setsigdef=(signal.SIGTERM, signal.SIGINT))
    finally:
        os.sched_setaffinity(0, mine)


def _wait_for_end(pid: int, deadline: float) -> bool:
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    return False


def reserved_port() -> socket.socket:
    """A loopback port for node 0 that the system gives to no other process: the other nodes may call before node 0 listens."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def main() -> int:
    """Run a command as all nodes of a trial."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    # The reaper signals every harness; this process only waits for them.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    shares = cpu_shares(sorted(os.sched_getaffinity(0)), options.nodes)
    with reserved_port() as reserved:
        rendezvous = f"127.0.0.1:{reserved.getsockname()[1]}"
        pids = [_spawn(options.command, node, shares[node], rendezvous) for node in range(options.nodes)]
        status = os.waitpid(pids[0], 0)[1]
    deadline = time.monotonic() + _END_WITHIN_S
    for pid in pids[1:]:
        if not _wait_for_end(pid, deadline):
            sys.stderr.write(f"a node's harness ({pid}) did not end with node 0\n")
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
