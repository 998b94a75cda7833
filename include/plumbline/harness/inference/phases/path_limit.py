"""The requests a second that the way to the model and back carries, with the messages and the concurrency of a load and nothing computed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from plumbline.harness.inference.phases.load_phase import Driver, sequential_load
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server import backends, tritonserver, under_test
from plumbline.harness.inference.server.assembly import ServerPlace, managed_triton
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Settings
from plumbline.results import metric_row

_LOAD_S, _MOST_REQUESTS, _WARM = 2.5, 20_000, 0.2
"""`_WARM`: share of the load at its begin that does not count."""


def measure_path(
    record: TrialRecord,
    place: ServerPlace,
    client_cpus: tuple[int, ...] | None,
    used: RequestLog,
    prompts: Sequence[Prompt],
    at_once: float,
    checkpoint: Path | None,
) -> tuple[float | None, str]:
    """(requests a second, why it is not known). Start the trial's servers with the model replaced by nothing, and send the requests of `used`, as
    long as they and their answers were, in a closed loop of `at_once` at a time. The trial's own servers have ended. A failure costs the row, which has its reason, not the trial."""
    workload, folder = record.workload, place.workdir / "path-limit"
    rate: float | None = None
    finished, reason = 0, ""
    try:
        folder.mkdir(exist_ok=True)
        written = backends.write_without_model(workload, folder / "models", threads=place.threads, checkpoint=checkpoint)
        served = managed_triton(tritonserver.find_installation(), written, replace(place, workdir=folder), workload)
        record.report(used.load.name, 0.0, "measuring the path without the model")
        with under_test.all_running(served.servers):
            rate, finished = _rate(Driver(record, served, Settings(cpus=client_cpus)), used, prompts, max(1, round(at_once)))
    except TrialFailed as failure:
        reason = failure.detail
    row = metric_row("server_path_rate", rate, finished, phase="cold_start", reason=f"not measured: {reason}" if reason else None)
    record.result.metrics.append(row)
    return rate, reason


def _rate(driver: Driver, used: RequestLog, prompts: Sequence[Prompt], at_once: int) -> tuple[float, int]:
    """(requests a second, requests that finished)."""
    each = max(2, _MOST_REQUESTS // at_once)
    # A model that ends its answers itself wrote less than it was allowed to.
    written = np.where(used.ok & (used.written > 0), used.written, used.load.output_tokens).astype(np.int32)
    order = np.arange(each * at_once) % used.load.n
    closed = sequential_load("warmup", [prompts[i] for i in order[:each].tolist()], 1, at_once)
    closed = replace(closed, input_tokens=used.load.input_tokens[order], output_tokens=written[order])

    def over(log: RequestLog) -> bool:
        return bool(np.isfinite(log.began) and time.monotonic() - log.began > _LOAD_S)

    log = driver.drive(closed, [prompts[i] for i in order.tolist()], stop=over, note="without the model: ", declared=False)
    ends = np.sort(log.ended[log.ok])
    counted = ends[ends >= _WARM * ends[-1]] if len(ends) else ends
    if len(counted) < 2:
        raise TrialFailed(*driver.served.failure(log))
    return (len(counted) - 1) / float(counted[-1] - counted[0]), len(ends)
