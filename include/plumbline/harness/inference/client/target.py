"""Where a load goes and how the client is to behave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.wire import Wire

Tick = Callable[[int, int], None]
"""`tick(ended, due)`: progress, about once a second."""
Stop = Callable[[RequestLog], bool]
"""Whether the phase shall end early, asked about every tenth of a second."""
Bodies = Sequence[bytes] | Mapping[int, bytes]
"""Requests, serialised, by number."""


@dataclass(frozen=True)
class Target:
    """Where the load goes.

    address   "host:port"
    running   whether the server lives or will again: once it says no, the phase ends
    protocol  how it is spoken to
    tls       over TLS, the server's certificate checked against the system's authorities
    headers   sent with each request, such as a key: never logged, never shown
    path      over HTTP: what stands before the protocol's own path, such as /v1
    exact     over HTTP: an answer of fewer tokens than were asked for is wrong
    replicas  addresses of further servers of the same model: requests, or chains of them, are dealt out to all in turn
    """

    address: str
    wire: Wire
    running: Callable[[], bool]
    protocol: str = "kserve_grpc"
    tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    path: str = ""
    exact: bool = True
    replicas: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all servers."""
        return (self.address, *self.replicas)


@dataclass(frozen=True)
class Settings:
    """How the client works.

    processes       that send the load; None: as many as its rate needs and the cores allow
    cpus            cores to keep to; None: wherever the system puts it
    in_flight_cap   requests that may be unanswered at once; further ones are sent late, and the log counts them
    slow_share      share of the requests between `slow_from_s` and `slow_until_s` of the phase whose answers are not read until the latter
    """

    processes: int | None = None
    cpus: tuple[int, ...] | None = None
    in_flight_cap: int = 20_000
    slow_share: float = 0.0
    slow_from_s: float = 0.0
    slow_until_s: float = 0.0

    def slow(self, number: int, scheduled_s: float) -> bool:
        """Whether this request's answer is read slowly; such requests are spread evenly over the phase's."""
        share = self.slow_share
        return bool(share) and self.slow_from_s <= scheduled_s < self.slow_until_s and int((number + 1) * share) > int(number * share)
