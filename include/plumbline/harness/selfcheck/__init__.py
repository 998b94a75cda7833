"""The instrument's check against known values: by `plumbline selfcheck`, and by a campaign's first trial on each provider.

    event_timer     the timer of steps and requests against a second clock; on a GPU, CUDA's events against a kernel of known cycles
    energy_counter  the driver's counter of energy against the sampled power
    counted_flops   the harness's count of a step's arithmetic against torch's own, for each architecture
    load_client     the load client's latencies against a server with set delays
    clock_offset    the wall clock against the monotonic one, and against its time server

Takes seconds on a CPU, mostly torch's start; a trial checks fewer architectures in less than five."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from plumbline.harness import engine_python
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.measurement import TrialJudgement, degraded
from plumbline.harness.selfcheck import clocks
from plumbline.harness.selfcheck.clocks import WallClock
from plumbline.results import CheckLine

if TYPE_CHECKING:  # the golden server is a process of its own, which needs none of them
    from plumbline.declarations import Trial

__all__ = ["ARCHITECTURES", "judgements", "run", "run_for_trial"]

ARCHITECTURES = ("gpt", "llama", "bert", "vit")


def run(device: Literal["cpu", "cuda"] = "cpu", architectures: Collection[str] = ARCHITECTURES) -> list[CheckLine]:
    """All lines, in the order above; `architectures`: whose FLOPs are counted. A failed check is a line, not an exception."""
    wall = WallClock()
    with torch_checks_process(device, architectures) as torch_lines:
        lines = [*clocks.event_timer(), *torch_lines()]
    # With the other process gone: it would take the core that the server or the client needs.
    lines += _load_client_lines()
    lines += [wall.line(), clocks.time_server_offset()]
    order = ("event_timer", "energy_counter", "counted_flops", "load_client", "clock_offset")
    return sorted(lines, key=lambda line: order.index(line.check))


def _load_client_lines() -> list[CheckLine]:
    if any(find_spec(name) is None for name in ("tritonclient", "grpc")):
        return [CheckLine.not_applicable("load_client", "this image measures no inference: tritonclient is not installed")]
    try:
        check = import_module("plumbline.harness.selfcheck.load_client")
    except (ImportError, RuntimeError) as error:  # tritonclient without its extra raises RuntimeError
        reason = f"this image measures no inference: tritonclient's gRPC part cannot be imported ({error}); expected tritonclient[grpc]"
        return [CheckLine.not_applicable("load_client", reason)]
    lines: list[CheckLine] = check.load_client_lines()
    return lines


def run_for_trial(trial: Trial) -> list[CheckLine]:
    """The lines of a campaign's first trial, on the device that it measures: FLOPs of our own decoder, which starts fastest, and of its model."""
    from plumbline.declarations import TrainingWorkload

    workload = trial.workload
    # Of a hosted model only the client runs here.
    device: Literal["cpu", "cuda"] = "cpu" if workload.needs.accelerator == "cpu" or trial.hosted else "cuda"
    own = {str(workload.model.architecture)} if isinstance(workload, TrainingWorkload) else set()
    return run(device, {"gpt", *own} & set(ARCHITECTURES))


def judgements(lines: list[CheckLine]) -> list[TrialJudgement]:
    """`selfcheck_failed` degrades the trial: its own checks still hold, and a busy machine can fail a line too."""
    bad = [line for line in lines if line.status == "fail"]
    if not bad:
        return []
    detail = "; ".join(f"{line.name}: {_format_comparison(line)}{line.reason}" for line in bad)
    return [degraded("selfcheck_failed", f"the instrument failed its own check: {detail}")]


def _format_comparison(line: CheckLine) -> str:
    if line.measured is None or line.expected is None or line.tolerance is None:
        return ""
    return f"{line.measured:.6g} {line.unit}, expected {line.expected:.6g} ± {line.tolerance:.3g}; "


_TORCH_LIMIT_S = {"cpu": 60.0, "cuda": 180.0}
_TORCH_COMMAND = (engine_python.executable(), "-m", "plumbline.harness.selfcheck.torch_checks")


@contextmanager
def torch_checks_process(device: str, architectures: Collection[str]) -> Iterator[Callable[[], list[CheckLine]]]:
    """The running process; the yielded call waits for its lines."""
    if not _has_torch():
        yield lambda: [
            CheckLine.not_applicable("counted_flops", "PyTorch is not installed"),
            CheckLine.not_applicable("energy_counter", "PyTorch is not installed"),
        ]
        return
    command = [*_TORCH_COMMAND, device, *architectures]
    with ChildProcess(command, engine_python.environment(), output=subprocess.PIPE, errors=subprocess.PIPE) as process:
        yield lambda: _read_torch_lines(process, _TORCH_LIMIT_S[device])


def _has_torch() -> bool:
    return PathFinder.find_spec("torch", engine_python.describe().search_path) is not None


def _read_torch_lines(process: ChildProcess, limit_s: float) -> list[CheckLine]:
    try:
        printed, complaint = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return [CheckLine.failed("counted_flops", f"the checks that need PyTorch took longer than {limit_s:.0f} s")]
    if process.returncode != 0:
        return [
            CheckLine.failed(
                "counted_flops",
                f"the checks that need PyTorch ended with {process.returncode}: {complaint[-1000:].decode(errors='replace').strip()}",
            )
        ]
    return [CheckLine(**line) for line in json.loads(printed.splitlines()[-1])]
