"""The record of a running trial: measurement, events, progress, what a hosted model counted, and the request evidence as Parquet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload, Trial
from plumbline.declarations.workloads.load import Requests, max_phase_seconds
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference.load import own_prompts
from plumbline.harness.inference.load.schedule import Schedule, turn_of
from plumbline.harness.launcher_protocol import Progress
from plumbline.harness.measurement import EvidenceFile, Measurement, Watched
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import COMPLETION, ERROR_CLASSES, PROMPT, USAGE, RequestLog, Values
from plumbline.metrics import Phase
from plumbline.results import Event, MetricRow, metric_row
from plumbline.results.token_usage import TokenUsage, bucket


class UsageTotals:
    """Adds up logs as they come; `rows` are those of a result document."""

    def __init__(self) -> None:
        self._by: dict[tuple[Phase, int], TokenUsage] = {}

    def add(self, phase: Phase, log: RequestLog) -> None:
        counted = (log.usage[:, PROMPT] >= 0) & (log.usage[:, COMPLETION] >= 0)
        for counts in log.usage[counted].tolist():
            self.add_answer(phase, counts)
        # An answer that broke off was begun, and is billed by most.
        for _ in range(int(np.count_nonzero((log.received > 0) & ~counted))):
            self.add_answer(phase, None)

    def add_answer(self, phase: Phase, counts: Sequence[int] | None) -> None:
        """One answer. `counts`: as request_log.USAGE names them, -1 where the server reported none; None: it counted nothing."""
        if counts is None or counts[PROMPT] < 0 or counts[COMPLETION] < 0:
            self._put(TokenUsage(phase=phase, above=0, requests=0, input_tokens=0, output_tokens=0, uncounted=1))
            return
        prompt, cached, completion, _ = counts
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


@dataclass(frozen=True)
class CapacityLoad:
    """What a highest rate was seen with. `log`, `prompts`: of the last run that confirmed it. `bracket`: (held, failed), 1/s, of a search; None: it is
    the throughput of a closed loop.

    `watched`: the stretches of that run and of those at higher rates."""

    rate: float
    bracket: tuple[float, float] | None
    probes: int
    log: RequestLog
    prompts: Sequence[Prompt]
    watched: Sequence[Watched]

    @property
    def in_flight(self) -> float:
        """Mean number of requests that were present, by Little's law."""
        latency = (self.log.last_token - self.log.scheduled)[self.log.ok]
        return self.rate * float(latency.mean()) if len(latency) else 0.0


OVERHEAD_S = 5.0
"""Overhead of a trial beside its load; for progress only."""


@dataclass
class TrialRecord:
    """`probed`: rows of the hardware probes. `logs`: one a phase of load, or one a probe of a search. `private_texts`: what must appear in no
    document and no evidence. `capacity`: the load at the highest rate of a search; None: no search held one."""

    trial: Trial
    workload: InferenceWorkload
    workdir: Path
    progress: Progress
    watch: ContentionMonitor
    probed: Sequence[MetricRow]
    result: Measurement
    logs: list[RequestLog] = field(default_factory=list)
    usage: UsageTotals = field(default_factory=UsageTotals)
    done_s: float = 0.0
    private_texts: tuple[str, ...] = field(default=(), repr=False)
    capacity: CapacityLoad | None = None
    _fraction: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds that the trial takes at most, if nothing has to drain."""
        return OVERHEAD_S + sum(max_phase_seconds(phase) for phase in self.workload.phases)

    def event(self, name: str, monotonic_s: float | None = None) -> None:
        """Record an event: now, or at `monotonic_s`."""
        now = time.monotonic()
        at = now if monotonic_s is None else monotonic_s
        self.result.events.append(Event(name=name, utc=datetime.fromtimestamp(time.time() - (now - at), timezone.utc), monotonic_s=at))

    def report(self, phase: str, into_s: float, note: str) -> None:
        """Report progress, never decreasing: `into_s` seconds into what follows `done_s`."""
        self._fraction = max(self._fraction, min((self.done_s + into_s) / self.total_s, 1.0))
        self.progress(phase, self._fraction, note)

    def publishable(self, detail: str) -> str:
        """An error's detail without text of private prompts."""
        return own_prompts.without_text(detail, self.private_texts) if self.private_texts else detail

    def measured(self) -> Measurement:
        self.result.usage = self.usage.rows
        for phase in dict.fromkeys(log.load.name for log in self.logs):
            own = [log for log in self.logs if log.load.name == phase]
            received, sent = sum(log.response_bytes for log in own), sum(log.n for log in own)
            self.result.metrics.append(metric_row("response_bytes", received, sent, phase=phase))
        evidence = [item for item in self.result.evidence if item.kind != "requests"]
        self.result.evidence = [*evidence, write_requests(self.logs, self.workload.requests, self.workdir)] if self.logs else evidence
        return self.result


_STATUS = np.array(["ok", *ERROR_CLASSES])


def write_schedule(schedule: Schedule, folder: Path) -> EvidenceFile:
    """`schedule.parquet`: one row a request, in the order in which they are due; `arrival_s` from the start of the phase, or, where `after`
    is not null, from the end of the request with that number; `probe` tells the lengths of a growing context apart, from 0."""
    tables = [
        pa.table(
            {
                "phase": pa.array([phase.name] * phase.n, pa.string()),
                "probe": pa.array([phase.probe] * phase.n, pa.int32()),
                "number": pa.array(np.arange(phase.n), pa.int32()),
                "arrival_s": pa.array(phase.arrivals_s, pa.float64()),
                "after": pa.array(phase.after, pa.int32(), mask=phase.after < 0),
                "input_tokens": pa.array(phase.input_tokens, pa.int32()),
                "output_tokens": pa.array(phase.output_tokens, pa.int32()),
            }
        )
        for phase in schedule.phases
    ]
    return EvidenceFile.of_table("schedule", pa.concat_tables(tables), folder)


def write_requests(logs: Sequence[RequestLog], requests: Requests, folder: Path) -> EvidenceFile:
    """`requests.parquet`: one row a request that was due, by its number in the schedule, or in that of its `probe`: of a search, or of a growing
    context's lengths, from 0.

    `…_s` are seconds from the start of the phase, except `token_times_s` [received tokens], which count from the request's scheduled time,
    and the server's own durations by stage. Null: did not happen. `status` is `ok` or the class of the error;
    `usage_…` is the server's own count of the request's tokens, `unsent_tokens` those of it that did not come, `first_content_s` the first token
    that is no thought;
    `replica` is the server that it went to, where several share the load; `after` is the request that this one followed, `turn` (from 1) its place in its conversation.
    """
    # A column that only some phases have, such as the unsent tokens, is null in the others.
    whole = pa.concat_tables([_table(log, requests) for log in logs], promote_options="default")
    return EvidenceFile.of_table("requests", whole, folder)


def _table(log: RequestLog, requests: Requests) -> pa.Table:
    due = np.flatnonzero(log.due)
    after, apart = log.load.after[due], requests.turns is None and log.load.turn is None
    return pa.table(
        {
            "phase": pa.array([log.load.name] * len(due), pa.string()),
            "probe": pa.array([log.load.probe] * len(due), pa.int32()),
            "number": pa.array(due, pa.int32()),
            "after": pa.array(after, pa.int32(), mask=after < 0),
            # Null where there are no conversations: the requests of a closed loop's user follow each other without belonging together.
            "turn": pa.array(turn_of(log.load, requests)[due] + 1, pa.int32(), mask=np.full(len(due), apart)),
            **({} if log.replica is None else {"replica": pa.array(log.replica[due], pa.int32())}),
            "status": pa.array(_STATUS[log.error[due]], pa.string()),
            "detail": pa.array([log.details.get(i) for i in due.tolist()], pa.string()),
            "scheduled_s": _seconds(log.scheduled[due]),
            "dispatched_s": _seconds(log.dispatched[due]),
            "first_token_s": _seconds(log.first_token[due]),
            "last_token_s": _seconds(log.last_token[due]),
            "ended_s": _seconds(log.ended[due]),
            "input_tokens": pa.array(log.load.input_tokens[due], pa.int32()),
            "output_tokens": pa.array(log.load.output_tokens[due], pa.int32()),
            "received_tokens": pa.array(log.received[due], pa.int32()),
            **({"first_content_s": _seconds(log.first_content[due])} if log.reasoned.any() else {}),
            **({"unsent_tokens": pa.array(log.unsent[due], pa.int32())} if log.unsent.any() else {}),
            **_usage(log, due),
            **{f"{stage}_s": _seconds(log.server_s[due, k]) for k, stage in enumerate(log.stages)},
            "token_times_s": _token_times(log, due),
        }
    )


def _seconds(values: Values) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def _usage(log: RequestLog, due: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Token usage by the server's own count; empty without one."""
    counts = log.usage[due]
    if not (counts >= 0).any():
        return {}
    return {f"usage_{name}": pa.array(counts[:, k], pa.int32(), mask=counts[:, k] < 0) for k, name in enumerate(USAGE)}


def _token_times(log: RequestLog, due: NDArray[np.int64]) -> pa.Array:
    lengths = np.minimum(log.received, log.load.output_tokens)
    owner = np.repeat(np.arange(log.load.n), log.load.output_tokens)
    counted = log.arrived & log.due[owner]
    times = (log.token_at - log.scheduled[owner])[counted]
    offsets = np.concatenate([[0], np.cumsum(lengths[due])])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(times, pa.float64()))
