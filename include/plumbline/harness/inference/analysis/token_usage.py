"""What a hosted model counted of a trial's requests, by phase and length of the prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plumbline.harness.inference.load.request_log import RequestLog
from plumbline.metrics import Phase
from plumbline.results.token_usage import TokenUsage, bucket


class UsageTotals:
    """Adds up logs as they come; `rows` are those of a result document."""

    def __init__(self) -> None:
        self._by: dict[tuple[Phase, int], TokenUsage] = {}

    def add(self, phase: Phase, log: RequestLog) -> None:
        counted = (log.usage[:, 0] >= 0) & (log.usage[:, 2] >= 0)
        for counts in log.usage[counted].tolist():
            self.add_answer(phase, counts)
        # An answer that broke off was begun, and is billed by most.
        for _ in range(int(np.count_nonzero((log.received > 0) & ~counted))):
            self.add_answer(phase, None)

    def add_answer(self, phase: Phase, counts: Sequence[int] | None) -> None:
        """One answer. `counts`: as request_log.USAGE names them, -1 where the server reported none; None: it counted nothing."""
        if counts is None or counts[0] < 0 or counts[2] < 0:
            self._put(TokenUsage(phase=phase, above=0, requests=0, input_tokens=0, output_tokens=0, uncounted=1))
            return
        prompt, cached, completion = counts
        self._put(
            TokenUsage(
                phase=phase,
                above=bucket(prompt),
                requests=1,
                input_tokens=prompt,
                cached_tokens=None if cached < 0 else min(cached, prompt),
                output_tokens=completion,
            )
        )

    def _put(self, new: TokenUsage) -> None:
        key = new.phase, new.above
        old = self._by.get(key)
        self._by[key] = new if old is None else _sum(old, new)

    @property
    def rows(self) -> list[TokenUsage]:
        return list(self._by.values())


def _sum(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    # Rows without a counted request say nothing of the cache.
    counted = [row.cached_tokens for row in (one, other) if row.requests]
    cached = None if None in counted or not counted else sum(tokens for tokens in counted if tokens is not None)
    return TokenUsage(
        phase=one.phase,
        above=one.above,
        requests=one.requests + other.requests,
        input_tokens=one.input_tokens + other.input_tokens,
        cached_tokens=cached,
        output_tokens=one.output_tokens + other.output_tokens,
        uncounted=one.uncounted + other.uncounted,
    )
