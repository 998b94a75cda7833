"""Several servers of one model on a node: which GPUs or cores each of them has, and how all start and stop together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager

import numpy as np

from plumbline.declarations.provider import Accelerator
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.triton import Triton
from plumbline.harness.measurement import TrialFailed
from plumbline.results import Telemetry


def label(k: int, n: int, detail: str) -> str:
    """`detail` with the replica that it is about, counted from 0; as it is where there is one server alone."""
    return detail if n == 1 else f"replica {k} of {n}: {detail}"


def devices(accelerator: Accelerator, replicas: int, each: int, inherited: Mapping[str, str]) -> list[dict[str, str]]:
    """Environment variables that show each replica its own `each` GPUs, by replica; empty ones on a CPU and for a single server.

    `inherited`: this process's environment, whose own choice of GPUs is kept. Raises TrialFailed("wrong_hardware") if it shows too few.
    """
    if accelerator.kind == "cpu" or replicas == 1:
        return [{} for _ in range(replicas)]
    variables = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if accelerator.kind == "amd" else ("CUDA_VISIBLE_DEVICES",)
    # ROCm renumbers twice: HIP's numbers count what ROCR shows.
    below = _listed(inherited, "ROCR_VISIBLE_DEVICES") if accelerator.kind == "amd" else None
    shown = next((found for name in variables if (found := _listed(inherited, name)) is not None), None)
    if shown is None:
        shown = [str(i) for i in range(len(below) if below is not None else accelerator.count)]
    if len(shown) < replicas * each:
        raise TrialFailed("wrong_hardware", f"{replicas} replicas of {each} GPUs need {replicas * each}, but {len(shown)} are visible here")
    own = [shown[k * each : (k + 1) * each] for k in range(replicas)]
    if accelerator.kind != "amd":
        return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus)} for gpus in own]
    renumbered = dict.fromkeys(variables, ",".join(map(str, range(each))))
    return [{"ROCR_VISIBLE_DEVICES": ",".join(_physical(gpu, below) for gpu in gpus), **renumbered} for gpus in own]


def _listed(variables: Mapping[str, str], name: str) -> list[str] | None:
    return [part.strip() for part in variables[name].split(",") if part.strip()] if name in variables else None


def _physical(gpu: str, below: Sequence[str] | None) -> str:
    return below[int(gpu)] if below is not None and gpu.isdigit() else gpu


@contextmanager
def together(servers: Sequence[Triton]) -> Iterator[None]:
    """All servers up while the block runs; each is gone afterwards, however it ends.

    They start at the same time. The first that fails ends the others' start, and its TrialFailed names it.
    """
    n = len(servers)
    if n == 1:
        with servers[0]:
            yield
        return
    with ThreadPoolExecutor(n, "replica") as pool:
        starting = {pool.submit(server.__enter__): k for k, server in enumerate(servers)}
        try:
            for started in as_completed(starting):
                try:
                    started.result()
                except TrialFailed as failure:
                    raise TrialFailed(failure.failure_class, label(starting[started], n, failure.detail)) from failure
            yield
        finally:
            # A server whose start is under way is closed by the thread that starts it; one that failed is closed already.
            for start, k in starting.items():
                if not start.done():
                    servers[k].give_up()
            up = [servers[k] for start, k in starting.items() if start.exception() is None]
            for closing in [pool.submit(server.__exit__, None, None, None) for server in up]:
                closing.result()


def silent(log: RequestLog, replicas: int) -> list[int]:
    """Replicas that were sent requests of this load and finished none."""
    if log.replica is None:
        return []
    return [k for k in range(replicas) if log.due[log.replica == k].any() and not log.ok[log.replica == k].any()]


def telemetry(log: RequestLog, replicas: int) -> list[Telemetry]:
    """What each replica did of a load, so that a slow GPU can be found: `replica<k>_time_to_first_token` (s, of finished requests, from their
    scheduled time) and `replica<k>_request_throughput` (requests/s). Nothing of a single server, or of a replica that finished nothing."""
    if log.replica is None:
        return []
    phase, waited, elapsed = log.load.name, log.first_token - log.scheduled, log.elapsed_s
    rows = []
    for k in range(replicas):
        values = np.sort(waited[log.ok & (log.replica == k)])
        if not len(values):
            continue
        low, mean, high, p95 = float(values[0]), float(values.mean()), float(values[-1]), float(np.quantile(values, 0.95))
        rate = len(values) / elapsed
        rows += [
            Telemetry(
                phase=phase, signal=f"replica{k}_time_to_first_token", unit="s", n=len(values), mean=mean, min=low, p95=p95, max=high
            ),
            Telemetry(
                phase=phase, signal=f"replica{k}_request_throughput", unit="requests/s", n=len(values), mean=rate, min=rate, max=rate
            ),
        ]
    return rows
