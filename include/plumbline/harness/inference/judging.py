"""Whether the client was the limit, and whether client and server counted the same: judged before any score."""

from __future__ import annotations

from typing import Literal

from plumbline.declarations import ValidityLimits
from plumbline.harness.inference.control import Statistics
from plumbline.harness.inference.metrics import achieved_rate_ratio, dispatch_p99
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.measurement import Judgement
from plumbline.results import Reason


def client_limited(log: RequestLog, limits: ValidityLimits) -> Judgement | None:
    """The client's own verdict on itself: it sent late or fewer, so the server was not asked what the schedule says."""
    delay, ratio, phase = dispatch_p99(log), achieved_rate_ratio(log), log.load.name
    found: list[str] = []
    level: Literal["degraded", "invalid"] = "degraded"
    if delay >= limits.dispatch_delay_degraded:
        found.append(
            f"p99 of the dispatch delay in {phase} is {delay * 1e3:.1f} ms (degraded from {limits.dispatch_delay_degraded * 1e3:g} ms)"
        )
    if ratio < limits.achieved_rate_degraded:
        found.append(f"{ratio:.1%} of the scheduled rate was sent in {phase} (degraded below {limits.achieved_rate_degraded:.1%})")
    if delay >= limits.dispatch_delay_invalid or ratio < limits.achieved_rate_invalid:
        level = "invalid"
    return Judgement(level, Reason(code="client_limited", detail="; ".join(found))) if found else None


def counts_differ(log: RequestLog, server: Statistics | None) -> Judgement | None:
    """Whether the server's counter contradicts the client's. Only a phase without errors can tell: a request that was given up may
    count as either."""
    n = len(log.requests)
    if server is None or len(log.finished) < n or server.succeeded == n:
        return None
    detail = f"the client finished {n} requests in {log.load.name}; the server counted {server.succeeded}"
    return Judgement("degraded", Reason(code="counts_differ", detail=detail))
