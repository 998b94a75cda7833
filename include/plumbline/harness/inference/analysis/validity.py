"""Judgements of a trial: was the client the limit, do the counts of client and server agree, is the cache in its declared state, is n large enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from plumbline.declarations import AnyCriterion, InferenceWorkload
from plumbline.declarations.thresholds import ClientLimits
from plumbline.harness.inference.analysis.metrics import ServerCounters, achieved_rate_ratio, cpu_utilization, dispatch_p99, without_pace
from plumbline.harness.measurement import TrialJudgement, degraded, invalid
from plumbline.kinds.arithmetic.few_requests import unanswered
from plumbline.loadclient.request_log import CACHED, COMPLETION, PROMPT, WAITED, RequestLog
from plumbline.results import MetricRow, Reason


def client_limited(log: RequestLog, limits: ClientLimits) -> TrialJudgement | None:
    """The client sent late or too little, or had no idle time left to read answers. Requests of a closed loop are due at known times too."""
    delay, ratio, busy, phase = dispatch_p99(log), achieved_rate_ratio(log), cpu_utilization(log), log.load.name
    reasons: list[str] = []
    level: Literal["degraded", "invalid"] = "degraded"
    if delay >= limits.dispatch_delay_degraded:
        reasons.append(
            f"p99 of the dispatch delay in {phase} is {delay * 1e3:.1f} ms (degraded from {limits.dispatch_delay_degraded * 1e3:g} ms)"
        )
    if ratio is not None and ratio < limits.achieved_rate_degraded:
        reasons.append(f"{ratio:.1%} of the scheduled rate was sent in {phase} (degraded below {limits.achieved_rate_degraded:.1%})")
    if busy is not None and busy >= limits.client_cpu_degraded:
        reasons.append(
            f"the client's busiest process used {busy:.0%} of its core in {phase} (degraded from {limits.client_cpu_degraded:.0%})"
        )
    if log.capped:
        reasons.append(f"{log.capped} requests of {phase} waited at the client's in-flight limit")
    if delay >= limits.dispatch_delay_invalid or (ratio is not None and ratio < limits.achieved_rate_invalid):
        level = "invalid"
    if not reasons:
        return None
    remedy = "use a quieter machine, more client processes or a lower rate"
    return TrialJudgement(level, Reason(code="client_limited", detail="; ".join([*reasons, remedy])))


def counts_differ(log: RequestLog, server: ServerCounters | None) -> TrialJudgement | None:
    """Only a phase without errors counts: a request that was given up may count as either."""
    if server is None or log.finished < log.n or server.succeeded == log.n:
        return None
    detail = f"the client finished {log.n} requests in {log.load.name}; the server counted {server.succeeded}"
    return degraded("counts_differ", detail)


def tokens_not_counted(log: RequestLog) -> TrialJudgement | None:
    """Answers of any length whose tokens the endpoint did not count: an event may carry several."""
    missing = int((log.usage[log.ok, COMPLETION] < 0).sum())
    if not missing:
        return None
    detail = (
        f"{missing} of {log.finished} answers of {log.load.name} have no usage, or one of fewer tokens than events came, so their tokens were "
        "counted by events, of which one may carry several; expected an endpoint that reports usage (stream_options.include_usage), or exact_output"
    )
    return degraded("tokens_not_counted", detail)


def rate_limited(log: RequestLog) -> TrialJudgement | None:
    """The endpoint refused requests of the phase because of a limit on their rate, which is no property of the model or its hardware."""
    refused = log.errors().get("rate_limited", 0)
    waited = sum(detail.startswith(WAITED) and log.due[i] for i, detail in log.details.items())
    if waited and not refused:
        first = next(detail for _, detail in sorted(log.details.items()) if detail.startswith(WAITED))
        return degraded("rate_limited", f"{waited} of {log.n} requests of {log.load.name} were {first}")
    if not refused:
        return None
    return degraded(
        "rate_limited", f"the endpoint refused {refused} of {log.n} requests of {log.load.name}; first: {log.first_of('rate_limited')}"
    )


_FEW = 0.2
"""Share of the tokens that may be of answers that came at once: a model ends some answers within an event."""


def pace_unmeasured(log: RequestLog) -> TrialJudgement | None:
    """Answers without a time per output token, unless they are few and only came at once."""
    why, several = without_pace(log), log.ok & (log.written > 1)
    lacking = several & np.isnan(log.time_per_output_token)
    if why is None or (log.written[lacking].sum() < _FEW * log.written[several].sum() and not log.unsent[lacking].any()):
        return None
    return degraded("pace_unmeasured", f"{why}; they have no TPOT and no ITL, and an SLO's limit on those is not judged for them")


_CUT_SHARE, _SHORT_SHARE = 0.5, 0.95


def prompt_cut(log: RequestLog, *, ids: bool) -> TrialJudgement | None:
    """The server read less than it was sent. Of token ids (`ids`) any difference counts. A tokenizer that is not ours makes another number of a
    text, but not half of it; nor the same number, below what was sent, of prompts of different lengths, which is where a server cuts."""
    sent, read, cached = log.load.input_tokens, log.usage[:, PROMPT], log.usage[:, CACHED]
    # Some servers count cached tokens apart.
    read = np.where(cached > read, read + cached, read)
    known = log.ok & (read > 0) & (sent > 0)
    if not known.any():
        return None
    most = int(read[known].max())
    at_most = known & (read == most) & (read < _SHORT_SHARE * sent)
    cut = known & (read < (1.0 if ids else _CUT_SHARE) * sent)
    if len(np.unique(sent[at_most])) > 1:
        cut |= at_most
    if not cut.any():
        return None
    worst = int(np.flatnonzero(cut)[np.argmin((read / np.maximum(sent, 1))[cut])])
    return invalid(
        "prompt_cut",
        f"the server read less than it was sent in {int(cut.sum())} of {int(known.sum())} requests of {log.load.name}, in one {read[worst]:,} of "
        f"{sent[worst]:,} tokens: it cut the prompt, or does not count what its cache has; expected a context that holds the workload's prompts",
    )


def unexpected_answers(log: RequestLog) -> list[TrialJudgement]:
    """Finished answers that are no stream of text, by what the client noted of them."""
    found = []
    for code, words in (("not_streamed", "did not stream"), ("answers_not_text", "answered by ")):
        notes = [detail for i, detail in sorted(log.details.items()) if log.due[i] and not log.error[i] and words in detail]
        if notes:
            found.append(degraded(code, f"{len(notes)} of {log.finished} answers of {log.load.name}: {notes[0]}"))
    return found


def too_few_requests(criteria: Iterable[AnyCriterion], metrics: Sequence[MetricRow]) -> TrialJudgement | None:
    """See `unanswered`."""
    few = unanswered(criteria, metrics)
    return None if few is None else TrialJudgement("degraded", few)


_MIN_HIT_SHARE = 0.5
"""Share of the prefixes' tokens that a primed cache must hit. Caches keep whole blocks and so always miss some tokens at a prefix's end;
the first request to an empty cache misses all."""


def cache_state_contradicted(workload: InferenceWorkload, log: RequestLog, server: ServerCounters | None) -> TrialJudgement | None:
    """Whether a phase's counters contradict the declared state. None without counters."""
    if server is None or server.cache_hits is None or server.cache_misses is None:
        return None
    state, hits, misses = workload.server.prefix_cache, server.cache_hits, server.cache_misses
    shared, phase = workload.requests.shared_prefix, log.load.name
    counted = f"it counted {hits} cached and {misses} uncached prompt tokens in {phase}"
    if state == "off":
        return invalid("cache_state", f"server.prefix_cache is off, yet the server has one: {counted}") if hits else None
    if workload.requests.turns is not None:
        return None  # a conversation finds its own history, whatever was in the cache before
    prefix, groups = (shared.tokens, shared.groups) if shared else (0, 0)
    if state == "cold":
        most = max(0, log.n - groups) * prefix
        if hits > most:
            return invalid(
                "cache_state", f"server.prefix_cache is cold, but the cache was not empty: {counted}; {log.n} requests share at most {most}"
            )
    else:
        least = _MIN_HIT_SHARE * log.finished * prefix
        if hits < least:
            return invalid(
                "cache_state",
                f"server.prefix_cache is primed, but the prefixes were not found: {counted}; {log.finished} requests with a prefix of "
                f"{prefix} tokens should have found at least {least:.0f}",
            )
    return None
