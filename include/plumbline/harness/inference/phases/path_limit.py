"""The tokens a second that the way from an engine through Triton's Python backend to the client can carry, with an engine that computes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from plumbline.declarations.workloads.engines import PATH_MEASURED
from plumbline.harness.inference.phases.load_phase import Driver, sequential_load
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server import tritonserver, under_test
from plumbline.harness.inference.server.assembly import Place, managed_triton
from plumbline.harness.inference.server.backends import generation
from plumbline.harness.inference.server.backends.generation import Weights
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.transport import Settings
from plumbline.results import metric_row

_MOST_SEQUENCES, _REQUESTS, _TOKENS, _PROMPT_TOKENS = 128, 4, 96, 128


def measure_path_limit(record: TrialRecord, place: Place, client_cpus: tuple[int, ...] | None) -> None:
    """Start the trial's servers with an engine that computes nothing, keep all sequences busy for a few seconds, and note the rate in `record`.

    Nothing for backends other than those in PATH_MEASURED, nor for an engine in a backend of its own. A failure costs the row, which has its reason, not the trial."""
    workload = record.workload
    if workload.server.backend not in PATH_MEASURED or workload.server.triton_backend is not None:
        return
    record.report("cold_start", 0.0, "measuring the path of the tokens without the engine")
    folder = place.workdir / "path-limit"
    folder.mkdir(exist_ok=True)
    ids = workload.requests.model_copy(update={"text": False, "output": "forced"})
    plain = workload.model_copy(update={"requests": ids, "server": workload.server.model_copy(update={"adapters": None})})
    written = generation.write(plain, folder / "models", "path", Weights(Path(), dummy=True, context=1024), place.threads, {})
    served = managed_triton(tritonserver.find_installation(), written, replace(place, workdir=folder), workload)
    rate: float | None = None
    tokens, reason = 0, None
    try:
        with under_test.all_running(served.servers):
            rate, tokens = _rate(Driver(record, served, Settings(cpus=client_cpus)), workload.server.sequences)
    except TrialFailed as failure:
        reason = f"not measured: {failure.detail}"
    record.path_limit = rate
    record.result.metrics.append(metric_row("server_path_throughput", rate, tokens, phase="cold_start", reason=reason))


def _rate(driver: Driver, sequences: int) -> tuple[float, int]:
    """(tokens a second from the first to the last of all answers, tokens)."""
    prompts = [Prompt(np.ones(_PROMPT_TOKENS, np.int32))] * _REQUESTS
    load = sequential_load("warmup", prompts, _TOKENS, min(sequences * driver.served.replicas, _MOST_SEQUENCES))
    log = driver.drive(load, prompts * (load.n // _REQUESTS), note="without the engine: ", declared=False)
    if log.finished < log.n:
        raise TrialFailed(*driver.served.failure(log))
    return load.n * _TOKENS / float(log.last_token.max() - log.first_token.min()), load.n * _TOKENS
