"""Two network namespaces and a link between them whose round trip takes a known time: a client at one place, a server at another.

    with DelayedLink(0.1, "relay") as link:
        subprocess.run([*link.client, "python", …])     # in the client's namespace; the server's is at link.address

`netem`: a pair of virtual cards, each delayed by the kernel's sch_netem. `relay`: a TUN device in each namespace, and a process between them that
holds back every packet, for kernels without sch_netem: handshakes are delayed as everything else.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import secrets
import select
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

_TUNSETIFF, _TUN_WITHOUT_HEADER, _CLONE_NEWNET = 0x400454CA, 0x1001, 0x40000000
_CARD, _ADDRESSES = "place0", ("10.213.7.1", "10.213.7.2")


class NoLink(Exception):
    """This machine refuses a namespace, or has no sch_netem; the text says which command and its error."""


class DelayedLink:
    """`round_trip_s`: the delay there and back. `client`, `server`: what goes before a command that shall run in their namespace."""

    def __init__(self, round_trip_s: float, kind: Literal["netem", "relay"]) -> None:
        self._half_s, self._kind = round_trip_s / 2, kind
        self._names = tuple(f"place-{end}-{secrets.token_hex(3)}" for end in ("client", "server"))
        self.client, self.server = (["ip", "netns", "exec", name] for name in self._names)
        self.address = _ADDRESSES[1]

    def __enter__(self) -> DelayedLink:
        with ExitStack() as stack:
            for name in self._names:
                _command("ip", "netns", "add", name)
                stack.callback(_command, "ip", "netns", "del", name)
            if self._kind == "relay":
                relay = subprocess.Popen(
                    [sys.executable, "-m", "tests.fakes.delayed_link", *self._names, str(self._half_s)], stdout=subprocess.PIPE
                )
                stack.callback(_end, relay)
                assert relay.stdout is not None
                if relay.stdout.readline() != b"ready\n":
                    raise NoLink("the relay could not open a TUN device in each namespace")
            else:
                pair = [
                    word
                    for name, kind in zip(self._names, ("type veth peer name", ""), strict=True)
                    for word in (_CARD, "netns", name, *kind.split())
                ]
                _command("ip", "link", "add", *pair)
                for name, address in zip(self._names, _ADDRESSES, strict=True):
                    _command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", _CARD)
                    _command("ip", "-n", name, "link", "set", _CARD, "up")
                    if self._half_s:
                        _command("tc", "-n", name, "qdisc", "add", "dev", _CARD, "root", "netem", "delay", f"{1000 * self._half_s:g}ms")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _command(*words: str) -> None:
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    except FileNotFoundError as error:
        raise NoLink(f"{words[0]}: {error.strerror}; install iproute2") from None
    if done.returncode:
        raise NoLink(f"{' '.join(words)}: {done.stderr.strip()}")


def _open_tun(namespace: str, address: str) -> int:
    """A file of the device in that namespace, which this process then is in."""
    with Path("/run/netns", namespace).open() as entry:
        if ctypes.CDLL(None, use_errno=True).setns(entry.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH", _CARD.encode(), _TUN_WITHOUT_HEADER))
    _command("ip", "addr", "add", f"{address}/24", "dev", _CARD)
    _command("ip", "link", "set", _CARD, "up")
    return tun


def main() -> None:
    """Carry each packet to the other end once its delay is over."""
    *names, delay_s = sys.argv[1:]
    ends = [_open_tun(name, address) for name, address in zip(names, _ADDRESSES, strict=True)]
    os.write(1, b"ready\n")
    under_way: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait_s = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
        for end in select.select(ends, [], [], wait_s)[0]:
            number += 1
            heapq.heappush(under_way, (time.monotonic() + float(delay_s), number, ends[1 - ends.index(end)], os.read(end, 65536)))
        while under_way and under_way[0][0] <= time.monotonic():
            os.write(*heapq.heappop(under_way)[2:])


if __name__ == "__main__":
    main()
