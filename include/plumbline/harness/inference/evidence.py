"""Raw evidence: the schedule that was to be sent and what became of each request, as Parquet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.harness.inference.arrivals import Schedule
from plumbline.harness.inference.requestlog import Request, RequestLog
from plumbline.harness.measurement import EvidenceFile


def write_schedule(schedule: Schedule, folder: Path) -> EvidenceFile:
    """`schedule.parquet`: one row a request, in the order in which they are due; `arrival_s` from the start of the phase."""
    tables = [
        pa.table(
            {
                "phase": pa.array([phase.name] * phase.n, pa.string()),
                "number": pa.array(range(phase.n), pa.int32()),
                "arrival_s": pa.array(phase.arrivals_s, pa.float64()),
                "input_tokens": pa.array(phase.input_tokens, pa.int32()),
                "output_tokens": pa.array(phase.output_tokens, pa.int32()),
            }
        )
        for phase in schedule.phases
    ]
    return _write("schedule", pa.concat_tables(tables), folder)


def write_requests(logs: Sequence[RequestLog], folder: Path) -> EvidenceFile:
    """`requests.parquet`: one row a request.

    `…_s` are seconds from the start of the phase, except `token_times_s` [tokens], which count from the request's scheduled time, and
    `queued_s`, `prefill_s`, `decode_s`, the server's own durations. Null: did not happen. `status` is `ok` or the class of the error.
    """
    return _write("requests", pa.concat_tables([_table(log) for log in logs]), folder)


def _table(log: RequestLog) -> pa.Table:
    rows = log.requests

    def floats(field: str) -> pa.Array:
        values = [getattr(r, field) for r in rows]
        return pa.array([None if math.isnan(v) else v for v in values], pa.float64())

    return pa.table(
        {
            "phase": pa.array([log.load.name] * len(rows), pa.string()),
            "number": pa.array(range(len(rows)), pa.int32()),
            "status": pa.array([r.error or "ok" for r in rows], pa.string()),
            "detail": pa.array([r.detail or None for r in rows], pa.string()),
            "scheduled_s": floats("scheduled"),
            "dispatched_s": floats("dispatched"),
            "first_token_s": floats("first_token"),
            "last_token_s": floats("last_token"),
            "ended_s": floats("ended"),
            "input_tokens": pa.array([r.input_tokens for r in rows], pa.int32()),
            "output_tokens": pa.array([r.output_tokens for r in rows], pa.int32()),
            "received_tokens": pa.array([len(r.tokens) for r in rows], pa.int32()),
            "queued_s": floats("queued_s"),
            "prefill_s": floats("prefill_s"),
            "decode_s": floats("decode_s"),
            "token_times_s": pa.array([_since_scheduled(r) for r in rows], pa.list_(pa.float64())),
        }
    )


def _since_scheduled(request: Request) -> list[float]:
    return [token - request.scheduled for token in request.tokens]


def _write(kind: str, table: pa.Table, folder: Path) -> EvidenceFile:
    path = folder / f"{kind}.parquet"
    pq.write_table(table, path, compression="zstd")
    return EvidenceFile(kind, path, table.num_rows)
