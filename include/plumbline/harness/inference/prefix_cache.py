"""The prefix cache's declared state: brought about before a phase, and held against the server's counters after it."""

from __future__ import annotations

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.server_view import ServerView
from plumbline.harness.measurement import Judgement
from plumbline.results import Reason

_FOUND = 0.5
"""Of the shared prefixes' tokens, what a primed cache must have had. Caches keep whole blocks, so some tokens at a prefix's end are always
missed; the first request to an empty cache misses all."""


def contradicted(workload: InferenceWorkload, log: RequestLog, server: ServerView | None) -> Judgement | None:
    """Whether the counters of a phase contradict the declared state. None also where the server does not count."""
    if server is None or server.cache_hits is None or server.cache_misses is None:
        return None
    state, hits, misses = workload.server.prefix_cache, server.cache_hits, server.cache_misses
    shared, phase = workload.requests.shared_prefix, log.load.name
    counted = f"in {phase} it counted {hits} prompt tokens found and {misses} not"
    if state == "off":
        return _invalid(f"server.prefix_cache is off, yet the server has one: {counted}") if hits else None
    if workload.requests.turns is not None:
        return None  # a conversation finds its own history, whatever was in the cache before
    prefix, groups = (shared.tokens, shared.groups) if shared else (0, 0)
    if state == "cold":
        most = max(0, log.n - groups) * prefix
        if hits > most:
            return _invalid(
                f"server.prefix_cache is cold, but the cache was not empty: {counted}; what {log.n} requests share is {most} at the most"
            )
    else:
        least = _FOUND * log.finished * prefix
        if hits < least:
            return _invalid(
                f"server.prefix_cache is primed, but the prefixes were not found: {counted}; {log.finished} requests with a prefix of "
                f"{prefix} tokens should have found at least {least:.0f}"
            )
    return None


def _invalid(detail: str) -> Judgement:
    return Judgement("invalid", Reason(code="cache_state", detail=detail))
