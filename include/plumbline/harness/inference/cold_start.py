"""The cold start, apart from the warm state: how the server came up, what it says of itself, and its first inference."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

from plumbline.harness.environment.sysfs import ranges
from plumbline.harness.inference import client, control
from plumbline.harness.inference.cores import Cores
from plumbline.harness.inference.phases import Driver
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.record import OVERHEAD_S, Record
from plumbline.harness.inference.serving import OwnTriton, SomebodysServer
from plumbline.harness.measurement import TrialFailed
from plumbline.results import row

_TO_READY = 0.6
"""Of the time that a trial takes besides its load."""


def of_triton(driver: Driver, served: OwnTriton, prompt: Prompt, output_tokens: int) -> None:
    """Rows of a server that has just come up, its facts, and its first inference.

    Raises TrialFailed: "server_error" if that fails, "harness_error" if the model runs in another Python environment.
    """
    record, start = driver.record, served.start_up
    record.event("server_started", start.started)
    record.event("server_ready", start.ready)
    record.report("cold_start", _TO_READY * OVERHEAD_S, "first inference")
    _facts(record, served)
    record.result.metrics += [
        row("time_to_ready", start.time_to_ready_s, served.replicas, phase="cold_start"),
        row("model_load_time", start.model_load_s, served.replicas if start.model_load_s is not None else 0, phase="cold_start"),
    ]
    first_inference(driver, prompt, output_tokens)


def of_endpoint(driver: Driver, served: SomebodysServer, prompt: Prompt, output_tokens: int) -> None:
    """The first inference of a server that was there before, and what is known of it; TrialFailed by what went wrong."""
    driver.record.report("cold_start", 0.0, "first inference")
    first_inference(driver, prompt, output_tokens)
    driver.record.result.facts |= served.endpoint.facts()


def first_inference(driver: Driver, prompt: Prompt, output_tokens: int) -> None:
    """Send one request to a server that has not answered any; of several servers one to each, and the slowest counts."""
    record = driver.record
    log = driver.drive_each("warmup", [prompt], output_tokens, note="first inference: ")
    record.event("first_inference_ended")
    complete = log.finished == log.n
    latency = float((log.last_token - log.dispatched).max()) if complete else None
    record.result.metrics.append(row("first_inference_latency", latency, log.finished, phase="cold_start"))
    if not complete:
        failure_class, why = driver.served.failure(log)
        raise TrialFailed(failure_class, f"the first inference failed: {why}")
    record.done_s = OVERHEAD_S


def client_facts(record: Record, cores: Cores | None, apart: Sequence[Sequence[int]] | None = None) -> None:
    """How the client works, and which cores it and the server have; None: the server is elsewhere. `apart`: those of each replica, where each
    has its own."""
    record.result.facts |= {"client.loop": client.LOOP, "client.placement": record.workload.server.client_placement}
    if cores is not None:
        record.result.facts |= {
            "client.cpus": ranges(cores.client) if cores.client else cores.told,
            "server.cpus": "; ".join(map(ranges, apart)) if apart else ranges(cores.server) if cores.server else cores.told,
        }


def _facts(record: Record, served: OwnTriton) -> None:
    about = served.start_up.about
    record.result.facts |= {
        "triton.version": control.version(served.triton.address),
        "triton.backend": served.repository.backend,
        "client.grpc": version("grpcio"),
        **{f"model.{key}": about.get(key) for key in ("parameters", "dtype", "device", "threads", "python", "torch")},
        # Keys and values of all rows: reserved, and resident, from the start on.
        **{f"model.{key}": about[key] for key in ("kv_cache_bytes",) if key in about},
    }
    if about and about["prefix"] != sys.prefix:
        raise TrialFailed("harness_error", f"the model runs in the Python environment {about['prefix']}; expected {sys.prefix}")
